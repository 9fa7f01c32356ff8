package servers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are taken from below the range the system gives to outgoing
// connections (32768 and up on Linux), or one of those could sit on a server's
// port while the server is down for a restart.
const (
	lowestPort  = 20000
	highestPort = 29999
)

// A port is a TCP port of the loopback interface that is ours until released.
//
// It stays reserved while nothing listens on it: the UDP port of the same
// number is held open as a token. Every process that takes its ports here sees
// the token, and the system frees it when this process dies.
type port struct {
	number int
	token  net.PacketConn
}

// reservePort finds a free port.
func reservePort() (port, error) {
	var last error
	for range 200 {
		number := lowestPort + rand.IntN(highestPort-lowestPort+1)
		address := loopback(number)
		token, err := net.ListenPacket("udp4", address)
		if err != nil {
			last = err
			continue
		}
		probe, err := net.Listen("tcp4", address)
		if err != nil {
			last = errors.Join(err, token.Close())
			continue
		}
		if err := probe.Close(); err != nil {
			return port{}, errors.Join(err, token.Close())
		}
		return port{number: number, token: token}, nil
	}
	return port{}, fmt.Errorf("no free port between %d and %d: %w", lowestPort, highestPort, last)
}

// reservePorts finds n free ports.
func reservePorts(n int) ([]port, error) {
	ports := make([]port, 0, n)
	for range n {
		p, err := reservePort()
		if err != nil {
			return nil, errors.Join(err, releasePorts(ports))
		}
		ports = append(ports, p)
	}
	return ports, nil
}

// releasePorts gives the ports back.
func releasePorts(ports []port) error {
	var errs []error
	for _, p := range ports {
		errs = append(errs, p.token.Close())
	}
	return errors.Join(errs...)
}

// loopback is the address of a port on this machine.
func loopback(number int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(number))
}

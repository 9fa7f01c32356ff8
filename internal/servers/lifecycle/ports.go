package lifecycle

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

// A Port is a TCP port of the loopback interface that is ours until released.
//
// It stays reserved while nothing listens on it: the UDP port of the same
// number is held open as a token. Every process that takes its ports here sees
// the token, and the system frees it when this process dies.
type Port struct {
	Number int
	token  net.PacketConn
}

// ReservePort finds a free port.
func ReservePort() (Port, error) {
	var last error
	for range 200 {
		number := lowestPort + rand.IntN(highestPort-lowestPort+1)
		address := Loopback(number)
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
			return Port{}, errors.Join(err, token.Close())
		}
		return Port{Number: number, token: token}, nil
	}
	return Port{}, fmt.Errorf("no free port between %d and %d: %w", lowestPort, highestPort, last)
}

// ReservePorts finds n free ports.
func ReservePorts(n int) ([]Port, error) {
	ports := make([]Port, 0, n)
	for range n {
		p, err := ReservePort()
		if err != nil {
			return nil, errors.Join(err, ReleasePorts(ports))
		}
		ports = append(ports, p)
	}
	return ports, nil
}

// Release gives the port back.
func (p Port) Release() error { return p.token.Close() }

// ReleasePorts gives the ports back.
func ReleasePorts(ports []Port) error {
	var errs []error
	for _, p := range ports {
		errs = append(errs, p.Release())
	}
	return errors.Join(errs...)
}

// Loopback is the address of a port on this machine.
func Loopback(number int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(number))
}

package servers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/delaybridge/delaybridge/internal/servers/lifecycle"
)

// A TLS is files in PEM with which servers end TLS themselves, at a further port of localhost, for clients that
// show a certificate of the authority. Redis nodes and Sentinels speak TLS with each other, too, and announce
// themselves as localhost. RabbitMQ takes the user's name from the client's certificate (auth_mechanism=external).
type TLS struct {
	Authority, Certificate, Key string
}

// ErrNoTLS means that containers cannot be started with [Config.TLS].
var ErrNoTLS = errors.New("servers that end TLS run as private nodes alone")

// copyTo puts the files where the node's account may read them.
func (t *TLS) copyTo(n *node) (*TLS, error) {
	var faults []error
	copied := func(from, name string) string {
		content, err := os.ReadFile(from)
		path, failed := n.write(name, string(content))
		faults = append(faults, err, failed)
		return path
	}
	own := &TLS{copied(t.Authority, "authority.pem"), copied(t.Certificate, "server.pem"), copied(t.Key, "server.key")}
	return own, errors.Join(faults...)
}

// redisSettings has Redis or a Sentinel listen at port.
func (t *TLS) redisSettings(port int) string {
	return fmt.Sprintf(`
# localhost may be either.
bind 127.0.0.1 -::1
tls-port %d
tls-ca-cert-file %s
tls-cert-file %s
tls-key-file %s
tls-replication yes
tls-cluster yes
cluster-announce-hostname localhost
cluster-preferred-endpoint-type hostname
replica-announce-ip localhost
`, port, t.Authority, t.Certificate, t.Key)
}

// rabbitMQSettings has RabbitMQ and its management API listen at two ports.
func (t *TLS) rabbitMQSettings(amqp, management int) string {
	var settings strings.Builder
	fmt.Fprintf(&settings, `
listeners.ssl.private = 127.0.0.1:%d
management.ssl.ip = 127.0.0.1
management.ssl.port = %d
auth_mechanisms.1 = EXTERNAL
auth_mechanisms.2 = PLAIN
ssl_cert_login_from = common_name
`, amqp, management)
	for _, of := range []string{"ssl_options", "management.ssl"} {
		fmt.Fprintf(&settings, `%[1]s.cacertfile = %[2]s
%[1]s.certfile = %[3]s
%[1]s.keyfile = %[4]s
%[1]s.verify = verify_peer
%[1]s.fail_if_no_peer_cert = true
`, of, t.Authority, t.Certificate, t.Key)
	}
	return settings.String()
}

// overTLS adds to the settings of a private node.
func (r *RabbitMQ) overTLS(n *node, t *TLS) error {
	own, err := t.copyTo(n)
	if err != nil {
		return err
	}
	ports, err := lifecycle.ReservePorts(2)
	if err != nil {
		return err
	}
	n.ports = append(n.ports, ports...)
	r.amqpTLSPort, r.managementTLSPort = ports[0].Number, ports[1].Number
	path := filepath.Join(n.dir, "rabbitmq.conf")
	settings, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(path, append(settings, own.rabbitMQSettings(r.amqpTLSPort, r.managementTLSPort)...), 0o600),
		os.WriteFile(filepath.Join(n.dir, "enabled_plugins"), []byte("[rabbitmq_management, rabbitmq_auth_mechanism_ssl].\n"), 0o600),
	)
}

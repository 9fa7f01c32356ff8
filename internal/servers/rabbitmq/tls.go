package rabbitmq

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/delaybridge/delaybridge/internal/servers/lifecycle"
	"github.com/delaybridge/delaybridge/internal/servers/private"
)

// tlsSettings has RabbitMQ and its management API listen at two ports.
func tlsSettings(t *private.TLS, amqp, management int) string {
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
func (r *Node) overTLS(n *private.Node, t *private.TLS) error {
	own, err := t.CopyTo(n)
	if err != nil {
		return err
	}
	ports, err := lifecycle.ReservePorts(2)
	if err != nil {
		return err
	}
	n.Ports = append(n.Ports, ports...)
	r.amqpTLSPort, r.managementTLSPort = ports[0].Number, ports[1].Number
	path := filepath.Join(n.Dir, "rabbitmq.conf")
	settings, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(path, append(settings, tlsSettings(own, r.amqpTLSPort, r.managementTLSPort)...), 0o600),
		os.WriteFile(filepath.Join(n.Dir, "enabled_plugins"), []byte("[rabbitmq_management, rabbitmq_auth_mechanism_ssl].\n"), 0o600),
	)
}

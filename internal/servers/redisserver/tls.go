package redisserver

import (
	"fmt"

	"github.com/delaybridge/delaybridge/internal/servers/private"
)

// tlsSettings has Redis or a Sentinel listen at port.
func tlsSettings(t *private.TLS, port int) string {
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

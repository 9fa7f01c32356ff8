package private

import (
	"errors"
	"os"
)

// A TLS is files in PEM with which servers end TLS themselves, at a further port of localhost, for clients that
// show a certificate of the authority. Redis nodes and Sentinels speak TLS with each other, too, and announce
// themselves as localhost. RabbitMQ takes the user's name from the client's certificate (auth_mechanism=external).
type TLS struct {
	Authority, Certificate, Key string
}

// CopyTo puts the files where the node's account may read them.
func (t *TLS) CopyTo(n *Node) (*TLS, error) {
	var faults []error
	copied := func(from, name string) string {
		content, err := os.ReadFile(from)
		path, failed := n.Write(name, string(content))
		faults = append(faults, err, failed)
		return path
	}
	own := &TLS{copied(t.Authority, "authority.pem"), copied(t.Certificate, "server.pem"), copied(t.Key, "server.key")}
	return own, errors.Join(faults...)
}

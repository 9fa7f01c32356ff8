package servertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Authority issues certificates.
type Authority struct {
	File string // its certificate, in PEM

	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	dir         string
	renewal     sync.RWMutex // a certificate and its key are read together
}

// NewAuthority returns one whose files last as long as the test.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{dir: t.TempDir(), key: newKey(t)}
	a.certificate = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of " + t.Name()}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.File = filepath.Join(a.dir, "authority.pem")
	a.sign(t, a.certificate, &a.key.PublicKey, a.File)
	return a
}

// Issue writes a certificate, for a server with these names and addresses or for a client, and its key.
// It replaces those that it has issued for the same name.
func (a *Authority) Issue(t testing.TB, name string, until time.Time, hosts ...string) (certFile, keyFile string) {
	t.Helper()
	a.renewal.Lock()
	defer a.renewal.Unlock()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	certFile, keyFile = a.Files(name)
	a.sign(t, template, &key.PublicKey, certFile)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, keyFile, "PRIVATE KEY", der)
	return certFile, keyFile
}

// Files returns where a certificate that was issued for name is, and its key.
func (a *Authority) Files(name string) (certFile, keyFile string) {
	return filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key")
}

// Pool trusts this authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

func (a *Authority) sign(t testing.TB, template *x509.Certificate, public *ecdsa.PublicKey, file string) {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, public, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if template == a.certificate {
		if a.certificate, err = x509.ParseCertificate(der); err != nil {
			t.Fatal(err)
		}
	}
	writePEM(t, file, "CERTIFICATE", der)
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t testing.TB, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Encrypt returns an address at which target is to be had over TLS. Its certificate is the one that was issued
// last for the name "server", and clients have to show one of this authority. Cut ends the connections that
// there are.
func (a *Authority) Encrypt(t testing.TB, target string) (address string, cut func()) {
	t.Helper()
	config := func() *tls.Config {
		a.renewal.RLock()
		defer a.renewal.RUnlock()
		pair, err := tls.LoadX509KeyPair(a.Files("server"))
		if err != nil {
			t.Error(err)
		}
		return &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.Pool(), MinVersion: tls.VersionTLS12}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	cut = func() {
		mu.Lock()
		defer mu.Unlock()
		for conn := range open {
			_ = conn.Close()
			delete(open, conn)
		}
	}
	t.Cleanup(func() {
		_ = listener.Close()
		cut()
	})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			behind, err := net.Dial("tcp", target)
			if err != nil {
				_ = conn.Close()
				continue
			}
			mu.Lock()
			open[conn], open[behind] = true, true
			mu.Unlock()
			outside := tls.Server(conn, config())
			go func() { _, _ = io.Copy(behind, outside); _ = behind.Close() }()
			go func() { _, _ = io.Copy(outside, behind); _ = outside.Close() }()
		}
	}()
	return listener.Addr().String(), cut
}

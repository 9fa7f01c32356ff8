package main

import (
	"bytes"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser is the user and group of the image: numbers, so that Kubernetes sees that it is not root.
const imageUser = "65532:65532"

// writeImage writes an image that has the program and nothing else that runs. No engine takes part,
// which would note down when it did.
func (t target) writeImage() error {
	roots := filepath.Join(t.dir, "ca-certificates.crt")
	if err := writeRoots(roots); err != nil {
		return err
	}
	const doc = "usr/share/doc/delaybridge/"
	content, err := tarOf([]file{
		{"etc/ssl/certs/ca-certificates.crt", roots, 0o644},
		{"usr/bin/delaybridge", filepath.Join(t.dir, t.program()), 0o755},
		{doc + "LICENSE", filepath.Join(repository, "LICENSE"), 0o644},
		{doc + notices, filepath.Join(t.dir, notices), 0o644},
	}, t.date)
	if err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
	if err != nil {
		return err
	}
	image, err := mutate.Append(empty.Image, mutate.Addendum{
		Layer: layer, History: v1.History{CreatedBy: "make release", Created: v1.Time{Time: t.date}},
	})
	if err != nil {
		return err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	config.OS, config.Architecture, config.Created = t.goos, t.goarch, v1.Time{Time: t.date}
	config.Config = v1.Config{
		User: imageUser, Entrypoint: []string{"/usr/bin/delaybridge"}, Cmd: []string{"bridge"},
		Env: []string{"PATH=/usr/bin"}, StopSignal: "SIGTERM",
		Labels: map[string]string{
			"org.opencontainers.image.title":    "delaybridge",
			"org.opencontainers.image.version":  t.version,
			"org.opencontainers.image.revision": t.commit,
			"org.opencontainers.image.created":  t.date.Format(time.RFC3339),
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return err
	}
	tag, err := name.NewTag("delaybridge:" + strings.ReplaceAll(t.version, "+", "_"))
	if err != nil {
		return err
	}
	return tarball.WriteToFile(filepath.Join(t.out, t.name(".image.tar")), tag, image)
}

// writeRoots writes the authorities that the image trusts: Mozilla's, as Go's own module has them. Those
// that may be trusted within limits only are left out, since a file of certificates cannot say so.
func writeRoots(path string) error {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return err
		}
	}
	return os.WriteFile(path, text.Bytes(), 0o644)
}

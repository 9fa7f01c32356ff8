package main

import (
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // the format
	_ "github.com/goreleaser/nfpm/v2/rpm" // the format
)

// writePackage writes a package, deb or rpm, as packaging/nfpm.yaml describes it.
func (t target) writePackage(format string) error {
	config, err := nfpm.ParseFileWithEnvMapping(filepath.Join("packaging", "nfpm.yaml"), func(name string) string {
		return map[string]string{
			"VERSION": t.version, "ARCH": t.goarch, "PROGRAM": t.dir, "COMMON": t.common, "REPOSITORY": repository,
			"BILL": filepath.Join(t.out, t.name(".cdx.json")),
		}[name]
	})
	if err != nil {
		return err
	}
	info, err := config.Get(format)
	if err != nil {
		return err
	}
	info.MTime = t.date
	info = nfpm.WithDefaults(info)
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	// nfpm takes a file's own time where it has one, and that is the time of this build.
	for _, content := range info.Contents {
		content.FileInfo.MTime = t.date
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	to, err := os.Create(filepath.Join(t.out, t.name("."+format)))
	if err != nil {
		return err
	}
	if err := packager.Package(info, to); err != nil {
		_ = to.Close()
		return err
	}
	return to.Close()
}

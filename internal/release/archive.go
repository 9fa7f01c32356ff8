package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// checksums is the name of the file that has one of each other file.
const checksums = "SHA256SUMS"

// file is one in an archive or an image.
type file struct {
	name string // its path inside
	from string // its path here
	mode int64
}

// contents is what archives have.
func (t target) contents() ([]file, error) {
	files := []file{
		{t.program(), filepath.Join(t.dir, t.program()), 0o755},
		{"LICENSE", filepath.Join(repository, "LICENSE"), 0o644},
		{notices, filepath.Join(t.dir, notices), 0o644},
		{"CHANGELOG.md", filepath.Join(repository, "CHANGELOG.md"), 0o644},
	}
	folders := []string{"completions"}
	if t.goos != "windows" {
		folders = append(folders, "man")
	}
	if t.goos == "linux" {
		for _, name := range []string{"delaybridge.service", "settings.yaml", "amqp-url", "management-url", "redis-url"} {
			files = append(files, file{"systemd/" + name, filepath.Join("packaging", name), 0o644})
		}
	}
	for _, folder := range folders {
		found, err := filepath.Glob(filepath.Join(t.common, folder, "*"))
		if err != nil {
			return nil, err
		}
		for _, path := range found {
			files = append(files, file{folder + "/" + filepath.Base(path), path, 0o644})
		}
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return files, nil
}

// writeArchive writes the program and what belongs to it, in a folder of the archive's name.
func (t target) writeArchive() error {
	files, err := t.contents()
	if err != nil {
		return err
	}
	for i := range files {
		files[i].name = t.name("") + "/" + files[i].name
	}
	if t.goos == "windows" {
		packed, err := zipOf(files, t.date)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(t.out, t.name(".zip")), packed, 0o644)
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	plain, err := tarOf(files, t.date)
	if err != nil {
		return err
	}
	if _, err := w.Write(plain); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(t.out, t.name(".tar.gz")), packed.Bytes(), 0o644)
}

// tarOf packs files that belong to root and are as old as the release.
func tarOf(files []file, date time.Time) ([]byte, error) {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, f := range files {
		content, err := os.ReadFile(f.from)
		if err != nil {
			return nil, err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Size: int64(len(content)), Mode: f.mode, ModTime: date}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return packed.Bytes(), err
}

func zipOf(files []file, date time.Time) ([]byte, error) {
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	for _, f := range files {
		content, err := os.ReadFile(f.from)
		if err != nil {
			return nil, err
		}
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: date}
		header.SetMode(os.FileMode(f.mode))
		to, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := to.Write(content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return packed.Bytes(), err
}

// writeChecksums writes what sha256sum --check reads.
func writeChecksums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(content), entry.Name())
	}
	return os.WriteFile(filepath.Join(dir, checksums), []byte(text.String()), 0o644)
}

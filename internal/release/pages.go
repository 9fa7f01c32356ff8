package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"os"
	"path/filepath"
	"strconv"
)

// writePages has the command write its man pages and completions.
func (r *release) writePages(ctx context.Context) error {
	host, err := goCommand(ctx, ".", nil, "env", "GOHOSTOS", "GOHOSTARCH")
	if err != nil {
		return err
	}
	fields := bytes.Fields(host)
	_, err = goCommand(ctx, repository,
		[]string{"GOOS=" + string(fields[0]), "GOARCH=" + string(fields[1]), "SOURCE_DATE_EPOCH=" + strconv.FormatInt(r.date.Unix(), 10)},
		"run", "-trimpath", "-tags", "pages", "./cmd/delaybridge", r.common, r.version)
	if err != nil {
		return err
	}
	return r.compressPages()
}

// compressPages adds what packages have: they compress man pages.
func (r *release) compressPages() error {
	pages, err := filepath.Glob(filepath.Join(r.common, "man", "*.1"))
	if err != nil {
		return err
	}
	dir := filepath.Join(r.common, "man-compressed")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		var packed bytes.Buffer
		w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(page)+".gz"), packed.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

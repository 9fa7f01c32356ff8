// Package config has the settings that containers, compose.yaml and private nodes
// share: as files, which compose.yaml mounts, and in the program, for servers that it
// starts itself. The folder observability is for compose.yaml alone.
package config

import (
	"embed"
	"errors"
	"io/fs"
)

//go:embed advanced.config enabled_plugins rabbitmq.conf redis.conf
var files embed.FS

// Read returns the file of that name. It is empty where there is none.
func Read(name string) (string, error) {
	content, err := files.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(content), err
}

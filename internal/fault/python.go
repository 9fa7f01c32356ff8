package fault

import (
	_ "embed"
	"path/filepath"
	"strings"
)

// python is Debian's, which has the clients.
const python = "/usr/bin/python3"

//go:embed shop.py
var pythonShop []byte

func (w *world) pythonFile() string { return filepath.Join(w.dir, "shop.py") }

func (r *role) inPython() bool { return strings.HasPrefix(r.Kind, "python") }

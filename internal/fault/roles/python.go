package roles

import (
	_ "embed"
	"os"
	"path/filepath"
	"strings"
)

// python is Debian's, which has the clients.
const python = "/usr/bin/python3"

//go:embed shop.py
var pythonShop []byte

func pythonFile(dir string) string { return filepath.Join(dir, "shop.py") }

// WritePython writes the program of the shop in Python into the folder of a run. It needs Debian's
// python3-pika and python3-psycopg2.
func WritePython(dir string) error { return os.WriteFile(pythonFile(dir), pythonShop, 0o600) }

// InPython says whether the role is one of the shop in Python.
func (r *Role) InPython() bool { return strings.HasPrefix(r.Kind, "python") }

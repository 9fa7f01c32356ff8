package frameworks_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docs/frameworks.md and docs/protocols.md show what is run here, line by line, and all of it.
func TestPageShowsWhatIsRun(t *testing.T) {
	t.Parallel()
	var pages strings.Builder
	for _, name := range []string{"frameworks.md", "protocols.md"} {
		page, err := os.ReadFile("../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		pages.Write(page)
	}
	shown := map[string]bool{}
	for _, match := range regexp.MustCompile("(?s)\\(\\.\\./examples/frameworks/([^)]+)\\)\n\n```[a-z]+\n(.*?)```\n").FindAllStringSubmatch(pages.String(), -1) {
		file, lines := match[1], match[2]
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains("\n"+string(text), "\n"+lines) {
			t.Errorf("the pages show other lines of %s than there are", file)
		}
		shown[file] = true
	}
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, d fs.DirEntry, err error) error {
		framework := filepath.Dir(path)
		switch {
		case err != nil || d.IsDir() || framework == "." || framework == "types":
			return err
		case filepath.Base(path) == "app.php": // what every application of Symfony has
			return nil
		case !shown[path]:
			t.Errorf("neither page shows %s", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

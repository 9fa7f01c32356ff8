package history

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Read returns the events of all files *.jsonl in dir, sorted by time. What concerns
// two orders or queues is there twice: see [InQueue]. The last
// line of a file may be torn, and is left out then; whatever else cannot be read
// is an error that names file and line.
func Read(dir string) ([]Event, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var events []Event
	for _, file := range files {
		if filepath.Ext(file.Name()) != ".jsonl" {
			continue
		}
		path := filepath.Join(dir, file.Name())
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if events, err = appendEvents(events, content); err != nil {
			return nil, fmt.Errorf("%s:%w", path, err)
		}
	}
	Sort(events)
	return spread(events), nil
}

// appendEvents appends the events in a file's content. An error begins with the
// number of the line.
func appendEvents(events []Event, content []byte) ([]Event, error) {
	for n := 1; len(content) > 0; n++ {
		line, rest, whole := bytes.Cut(content, []byte("\n"))
		content = rest
		var e Event
		err := json.Unmarshal(line, &e)
		if err != nil && !whole {
			break // a part of an object is never one
		}
		if err == nil {
			err = e.valid()
		}
		if err != nil {
			return nil, fmt.Errorf("%d: %w", n, err)
		}
		events = append(events, e)
	}
	return events, nil
}

// Sort puts events in the order of time. Those of one process at one instant keep their order.
func Sort(events []Event) {
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
}

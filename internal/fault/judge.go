package fault

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/delaybridge/delaybridge/internal/fault/checker"
	"github.com/delaybridge/delaybridge/internal/fault/history"
)

// interval is an act as it is kept with the history.
type interval struct {
	Name  string `json:"name"`
	Began int64  `json:"began"` // Unix microseconds
}

const actsFile = "acts.json"

func saveActs(dir string, acts []act) error {
	var list []interval
	for _, a := range acts {
		list = append(list, interval{a.name, a.began})
	}
	content, err := json.MarshalIndent(list, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, actsFile), content, 0o600)
}

// Judge reads the history that a run has left in dir and decides over it.
func Judge(dir string) (*checker.Report, error) {
	events, err := history.Read(filepath.Join(dir, "history"))
	if err != nil {
		return nil, err
	}
	final, err := history.ReadFinal(dir)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(filepath.Join(dir, actsFile))
	if err != nil {
		return nil, err
	}
	var acts []interval
	if err := json.Unmarshal(content, &acts); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, actsFile), err)
	}
	// An order and a fault belong to the act in which they began.
	for i := range events {
		if k := events[i].Kind; k != history.Placed && k != history.Fault && k != history.Mended {
			continue
		}
		for _, a := range acts {
			if events[i].At >= a.Began || events[i].Act == "" {
				events[i].Act = a.Name
			}
		}
	}
	return checker.Check(events, *final), nil
}

package history

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Final is what the order store and the servers hold when everything has come to
// rest.
type Final struct {
	Orders   map[string]OrderState `json:"orders"` // by ID
	Stock    []StockLine           `json:"stock"`
	Leftover []Left                `json:"leftover,omitempty"`
	// Tombstones are the IDs that are cancelled by what Redis holds; nil if it was not looked at.
	Tombstones []string `json:"tombstones"`
	// Contradictions are what Park.Verify has found in Redis.
	Contradictions []string `json:"contradictions,omitempty"`
	// Processes are those that were under way in the end.
	Processes []Process `json:"processes,omitempty"`
}

// Process is one of our own, at rest.
type Process struct {
	Name string `json:"name"`
	// Old is how many goroutines it has after the run, and Fresh when it was started anew.
	Old   int `json:"old"`
	Fresh int `json:"fresh"`
}

// States of an order.
const (
	StatePending = "pending"
	StatePaid    = "paid"
	StateClosed  = "closed"
)

// OrderState is what the order store holds of an order.
type OrderState struct {
	// State is [StatePending], [StatePaid] or [StateClosed].
	State string `json:"state"`
	// Closings is how often the store's own log says that the order was closed.
	Closings int `json:"closings,omitempty"`
}

// StockLine is the stock of one article.
type StockLine struct {
	SKU string `json:"sku"`
	// Want is the initial stock less the quantities of paid and pending orders.
	Want int `json:"want"`
	Have int `json:"have"`
}

// Left is a message that still lies somewhere.
type Left struct {
	Where  string `json:"where"` // such as "redis", or a queue's name
	Order  string `json:"order,omitempty"`
	Reason string `json:"reason,omitempty"` // as the message gives it
}

// Quarantined says whether l lies in a quarantine queue.
func (l Left) Quarantined() bool { return strings.Contains(l.Where, "quarantine") }

// String says where l lies, and why.
func (l Left) String() string {
	if l.Reason == "" {
		return l.Where
	}
	return l.Where + " (" + l.Reason + ")"
}

const finalFile = "final.json"

// Save writes f to the file final.json in dir.
func (f *Final) Save(dir string) error {
	content, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, finalFile), append(content, '\n'), 0o600)
}

// ReadFinal reads what [Final.Save] has written to dir.
func ReadFinal(dir string) (*Final, error) {
	path := filepath.Join(dir, finalFile)
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var f Final
	if err := json.Unmarshal(content, &f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &f, nil
}

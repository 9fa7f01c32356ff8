package message

import "time"

// Handling is how far the consumer of a queue is with a message.
type Handling struct {
	Queue string `json:"queue"`
	// Attempts is how often the message was handled, and Outcome what became of it, in
	// the consumer's words: acknowledged, delayed, quarantined.
	Attempts int    `json:"attempts"`
	Outcome  string `json:"outcome"`
	// At is since when that is so, and RetryAt when the next attempt is to be, or zero.
	At      time.Time `json:"at"`
	RetryAt time.Time `json:"retry_at,omitzero"`
	// History has a line for each of the last attempts that were in vain, the oldest
	// first.
	History []string `json:"history,omitempty"`
}

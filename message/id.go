package message

import "crypto/rand"

// What the ID of a message begins with that came to the inbox without one.
const (
	// MadeUpPrefix begins every ID that a bridge has made up.
	MadeUpPrefix = "no-id."
	// MadeUpAgainPrefix begins one where the broker says that it has delivered the message
	// to a bridge before: there may be a copy of it under another ID that was made up.
	MadeUpAgainPrefix = MadeUpPrefix + "redelivered."
)

// MadeUpID makes up an ID for a message that has none, and says in it whether the broker
// has delivered the message before. Nothing that a broker tells of a message is the same at
// each delivery and different for each message: so neither is the ID.
func MadeUpID(redelivered bool) string {
	if redelivered {
		return MadeUpAgainPrefix + rand.Text()
	}
	return MadeUpPrefix + rand.Text()
}

package doctor

import "time"

// OnlyChecks leaves all other checks out.
func (c Config) OnlyChecks(names ...string) Config {
	c.only = names
	return c
}

// CheckNames are those of all checks.
func CheckNames() []string {
	var names []string
	for _, c := range checks() {
		names = append(names, c.name)
	}
	return names
}

// What tests judge without a server.

// JudgeRedis is judgeRedis.
func JudgeRedis(subject, cli string, said map[string]string) []Finding {
	return judgeRedis(subject, cli, said)
}

// JudgeBrokerVersion is judgeBrokerVersion.
func JudgeBrokerVersion(node, found string) []Finding { return judgeBrokerVersion(node, found) }

// JudgeBrokerClock is judgeBrokerClock.
func JudgeBrokerClock(node, against string, o Offset) []Finding {
	return judgeBrokerClock(node, against, o)
}

// BindingOf returns the command that doctor suggests for messages that an exchange could not
// route by key, and what it says about the key.
func BindingOf(c Config, exchange, key string) (command, warning string) {
	x := &examination{Config: c}
	return x.bind(route{exchange, key}), x.wildcards(route{exchange, key})
}

type (
	Node = node
	// Application is one of a node.
	Application = application
	Offset      = offset
)

// Judge is judge.
func (n node) Judge(all ...Node) []Finding { return n.judge(all) }

// NewOffset is in milliseconds.
func NewOffset(least, most time.Duration) Offset {
	return offset{least * time.Millisecond, most * time.Millisecond}
}

// TopicMatches is topicMatches for what is not taken apart yet.
func TopicMatches(pattern, key string) bool { return topicMatches(words(pattern), words(key)) }

// JudgeURLs is what plain finds in the URLs of a configuration.
func JudgeURLs(c Config) (findings []Finding, err error) {
	all, err := (&examination{Config: c}).connectionsOf()
	for _, c := range all {
		findings = append(findings, c.plain()...)
	}
	return findings, err
}

// TriesOut is triesOut for a bridge with this URL.
func TriesOut(amqpURL string) bool {
	return (&examination{Config: Config{AMQPURL: amqpURL}}).triesOut()
}

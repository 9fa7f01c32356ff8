package figures

// goals are what the figures must reach.
func goals() []goal {
	return []goal{
		{"exact_over_raw_throughput", "delays that equal a tier / the bare tier", atLeast, 0.9},
		{"arbitrary_over_raw_throughput", "any other delay / the bare tier", atLeast, 0.6},
		{"arbitrary_over_raw_p99_lateness", "the same, p99 lateness at 1,000/s", atMost, 1.5},
		{"inbox_over_plain", "foreign clients, through the inbox into Redis / into a plain queue", atLeast, 0.45},
		{"early", "messages that came out before they were due", atMost, 0},
		{"allocs_publish", "allocations of a publish beyond the client library's", atMost, 3},
		{"park_over_bare", "parking / ZADD and HSET of as many bytes", atLeast, 0.4},
		{"promote_over_bare", "promoting a backlog / publishing it from memory", atLeast, 0.7},
		{"two_bridges_over_one", "the same with a second bridge process / with one", atLeast, 1},
		{"burst100k_over_raw", "draining what is due in one second / a bare queue of it", atLeast, 0.8},
		{"burst1m_lost", "messages lost of a million due in one second", atMost, 0},
		{"burst1m_rss_mb", "memory of the bridge meanwhile, at its peak", below, 256},
		{"redis_overhead_bytes", "memory of a parked message over body and ID", atMost, 110},
		{"cost_10m_over_10k", "Redis' time to park, cancel, promote beside 10 million / 10 thousand", atMost, 1.3},
		{"loaded_p99_over_empty", "p99 lateness at 1,000/s beside 10 million / none", atMost, 1.5},
		{"export_rss_mb", "memory of an export of 10 million, at its peak", below, 256},
		{"export_p99_over_before", "p99 lateness at 1,000/s beside it / before it", atMost, 1.5},
		{"idle_commands_per_s", "Redis commands of a bridge with nothing due", below, 1},
		{"idle_cpu", "percent of a processor that it takes", below, 0.5},
	}
}

type goal struct {
	key, what string
	is        comparison
	bound     float64
}

type comparison string

const (
	atLeast comparison = ">="
	atMost  comparison = "<="
	below   comparison = "<"
)

func (g goal) reached(value float64) bool {
	switch g.is {
	case atLeast:
		return value >= g.bound
	case atMost:
		return value <= g.bound
	default:
		return value < g.bound
	}
}

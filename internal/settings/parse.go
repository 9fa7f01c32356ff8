package settings

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/secretfile"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// errNoURL does not repeat what was read, which may have a password in it.
var errNoURL = errors.New("it is no URL: a port is a number, and in user and password write % as %25, / as %2F, ? as %3F, # as %23, @ as %40, and a blank as %20")

// checkURL reads a URL, which may be in a file. What it is to be like is for who connects.
func checkURL(text string) error {
	text, err := secretfile.Resolve(text)
	if err != nil {
		return err
	}
	for _, host := range broker.Hosts(text) {
		if _, err := url.Parse(host); err != nil {
			return errNoURL
		}
	}
	return nil
}

// parseEntries reads what is written orders=direct,audit=fanout+tracked. The error names
// all that cannot be read; whether names and types will do is for the topology.
func parseEntries(text string) ([]topology.Entry, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var entries []topology.Entry
	var faults []error
	for part := range strings.SplitSeq(text, ",") {
		name, kind, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok || name == "" {
			faults = append(faults, fmt.Errorf("%q: write NAME=TYPE, such as orders=direct", part))
			continue
		}
		kind, tracked := cutTracked(kind)
		entries = append(entries, topology.Entry{Name: name, Kind: kind, Tracked: tracked})
	}
	return entries, errors.Join(faults...)
}

// parseQuotas reads what is written orders=messages:50000+body:64KiB,audit=delay:720h. The error
// names all that cannot be read.
func (c *Settings) parseQuotas(text string) error {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	var faults []error
	for part := range strings.SplitSeq(text, ",") {
		entry, limits, ok := strings.Cut(strings.TrimSpace(part), "=")
		_, twice := c.Quotas[entry]
		switch {
		case !ok || entry == "" || limits == "":
			faults = append(faults, fmt.Errorf("%q: write NAME=LIMIT+LIMIT, such as orders=messages:50000+body:64KiB", part))
		case twice:
			faults = append(faults, fmt.Errorf("entry %q is listed twice", entry))
		default:
			faults = append(faults, c.parseQuota(entry, limits))
		}
	}
	return errors.Join(faults...)
}

// parseQuota reads the limits of an entry.
func (c *Settings) parseQuota(entry, limits string) error {
	if strings.TrimSpace(limits) == "" {
		return nil
	}
	var q redisbridge.Quota
	given := map[string]bool{}
	for limit := range strings.SplitSeq(limits, "+") {
		what, value, _ := strings.Cut(strings.TrimSpace(limit), ":")
		var n int64
		var err error
		switch what {
		case "messages":
			if n, err = strconv.ParseInt(value, 10, 64); err != nil {
				err = errors.New("it is no number")
			}
			q.Messages = n
		case "bytes":
			n, err = ParseSize(value)
			q.Bytes = n
		case "body":
			n, err = ParseSize(value)
			q.Body = n
		case "delay":
			q.Delay, err = wire.ParseDuration(value)
			n = int64(q.Delay)
		default:
			return fmt.Errorf("%q: use messages:N, bytes:SIZE, delay:DURATION or body:SIZE", limit)
		}
		switch {
		case err != nil:
		case n <= 0:
			err = errors.New("it must be more than 0; leave out a limit that there is not to be")
		case given[what]:
			err = fmt.Errorf("there is a limit of %s already", what)
		}
		if err != nil {
			return fmt.Errorf("%q: %w", limit, err)
		}
		given[what] = true
	}
	if c.Quotas == nil {
		c.Quotas = map[string]redisbridge.Quota{}
	}
	c.Quotas[entry] = q
	return nil
}

// ParseSize reads a number of bytes as people write it: 4096, 64KiB or 1GB.
func ParseSize(text string) (int64, error) {
	n, err := humanize.ParseBytes(text)
	if err != nil || n > math.MaxInt64 {
		return 0, errors.New("it is no size: write 4096, 64KiB or 1GiB")
	}
	return int64(n), nil
}

// cutTracked takes the word apart that says of which type an entry is.
func cutTracked(text string) (kind string, tracked bool) { return strings.CutSuffix(text, "+tracked") }

// durationText writes a duration as people do, and as ParseDuration reads it.
func durationText(d time.Duration) string { return wire.TTLName(d) }

func ttlList(ttls []time.Duration) string {
	names := make([]string, len(ttls))
	for i, ttl := range ttls {
		names[i] = wire.TTLName(ttl)
	}
	return strings.Join(names, ",")
}

package unsettled

import "sync"

// Order has messages of one key wait for each other. It outlives channels, as handlers do. The
// zero value is ready for use.
type Order struct {
	mu    sync.Mutex
	lines map[string][]func() // of the keys that are at work; the turns of who waits behind
}

// Enter reports whether nothing of the key is at work, which from then on it is.
// Otherwise Leave returns turn when that has come.
func (o *Order) Enter(key string, turn func()) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	line, busy := o.lines[key]
	switch {
	case busy:
		o.lines[key] = append(line, turn)
	case o.lines == nil:
		o.lines = map[string][]func(){key: nil}
	default:
		o.lines[key] = nil
	}
	return !busy
}

// Leave returns the next turn of the key, or false where nothing is at work any more.
func (o *Order) Leave(key string) (turn func(), ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	line := o.lines[key]
	if len(line) == 0 {
		delete(o.lines, key)
		return nil, false
	}
	o.lines[key] = line[1:]
	return line[0], true
}

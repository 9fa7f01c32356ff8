package broker_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/broker"
)

// slow is a connection that writes when it is told to, and counts.
type slow struct {
	net.Conn
	mu     sync.Mutex
	goOn   chan error
	wrote  bytes.Buffer
	writes int
}

func (s *slow) Write(b []byte) (int, error) {
	if err := <-s.goOn; err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	return s.wrote.Write(b)
}

func (s *slow) Close() error { return nil }

func (s *slow) state() (wrote string, writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wrote.String(), s.writes
}

func TestGatherWritesInOrderAndTogether(t *testing.T) {
	t.Parallel()
	conn := &slow{goOn: make(chan error)}
	g := broker.Gather(conn)
	defer func() { _ = g.Close() }()
	var want bytes.Buffer
	write := func(text string) {
		t.Helper()
		want.WriteString(text)
		if _, err := io.WriteString(g, text); err != nil {
			t.Fatal(err)
		}
	}
	write("first ")
	for range 100 {
		write("and another ")
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		select {
		case conn.goOn <- nil:
		case <-time.After(10 * time.Millisecond): // the last write has been told to go on already
		}
		wrote, writes := conn.state()
		if wrote == want.String() {
			if writes > 3 {
				t.Errorf("101 calls became %d writes, want 2 or 3", writes)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("wrote %q", wrote)
		}
	}
}

func TestGatherTellsOfAFailedWrite(t *testing.T) {
	t.Parallel()
	conn := &slow{goOn: make(chan error, 1)}
	g := broker.Gather(conn)
	defer func() { _ = g.Close() }()
	fault := errors.New("the network is gone")
	conn.goOn <- fault
	for deadline := time.Now().Add(10 * time.Second); ; {
		if _, err := io.WriteString(g, "x"); err != nil {
			if !errors.Is(err, fault) {
				t.Errorf("got %v, want %v", err, fault)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("writes succeed after one has failed")
		}
	}
}

// Who writes faster than the network takes it waits, and Close ends the wait.
func TestGatherIsBounded(t *testing.T) {
	t.Parallel()
	conn := &slow{goOn: make(chan error, 1)} // if no write has begun, nobody will ask
	g := broker.Gather(conn)
	ended := make(chan error)
	go func() {
		for {
			if _, err := g.Write(make([]byte, 64<<10)); err != nil {
				ended <- err
				return
			}
		}
	}()
	select {
	case err := <-ended:
		t.Fatalf("ended by itself: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if held := broker.Gathered(g); held > 2*broker.GatherMost {
		t.Errorf("%d bytes wait to be written, want about %d at most", held, broker.GatherMost)
	}
	_ = g.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("write after Close: got %v, want net.ErrClosed", err)
	}
	conn.goOn <- net.ErrClosed // as a real connection would end the write under way
}

package cli

import (
	"io"
	"testing"
	"time"

	"github.com/creack/pty"
)

// What is shown while a command works is drawn by one goroutine and described by another.
func TestWorkingIsDescribedWhileItIsDrawn(t *testing.T) {
	t.Parallel()
	file, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, file) // ends with the terminal
	}()
	a := &App{Streams: Streams{Err: tty}}
	shown := a.NewWorking("counting in Redis")
	<-time.After(workingTurn * 3 / 2) // Redis answers once it has been drawn
	shown.Describe("counting in RabbitMQ")
	shown.Clear()
	shown.Clear() // harmless
	_ = tty.Close()
	<-drained
	_ = file.Close()
}

// Command clock prints what its clocks say, as JSON: the wall clock in Unix
// milliseconds, and in nanoseconds how long a timer of 50 ms and a deadline of
// 50 ms took, each by time.Since.
package main

import (
	"context"
	"encoding/json"
	"os"
	"time"
)

const wait = 50 * time.Millisecond

func main() {
	began := time.Now()
	reading := map[string]int64{"wall": began.UnixMilli()}

	<-time.After(wait)
	reading["timer"] = int64(time.Since(began))

	began = time.Now()
	ctx, cancel := context.WithDeadline(context.Background(), began.Add(wait))
	defer cancel()
	reading["until"] = int64(time.Until(began.Add(time.Hour)))
	<-ctx.Done()
	reading["deadline"] = int64(time.Since(began))

	if err := json.NewEncoder(os.Stdout).Encode(reading); err != nil {
		panic(err)
	}
}

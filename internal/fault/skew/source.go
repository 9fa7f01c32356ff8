package skew

import (
	"bytes"
	"errors"
)

// The head of time.Now as of Go 1.26, up to where it has told a synctest bubble
// its time, which needs no skew.
const (
	nowBefore = `func Now() Time {
	sec, nsec, mono := runtimeNow()
	if mono == 0 {
		return Time{uint64(nsec), sec + unixToInternal, Local}
	}
	mono -= startNano
	sec += unixToInternal - minWall
`
	nowAfter = nowBefore + `	sec += delaybridgeSkew
`
)

// skewSource joins package time. It reads the variable when the package is
// initialised, before any other package can ask for the time.
const skewSource = `package time

import "syscall"

var delaybridgeSkew = func() int64 {
	text, _ := syscall.Getenv("` + Variable + `")
	if text == "" {
		return 0
	}
	seconds, err := atoi(text)
	if err != nil {
		panic("` + Variable + `: not a number of seconds: " + text)
	}
	return int64(seconds)
}()
`

var errSource = errors.New("time.Now is not the one that package skew knows; look at it and change source.go")

// shift adds the skew to the seconds that time.Now returns.
func shift(source []byte) ([]byte, error) {
	if bytes.Count(source, []byte(nowBefore)) != 1 {
		return nil, errSource
	}
	return bytes.Replace(source, []byte(nowBefore), []byte(nowAfter), 1), nil
}

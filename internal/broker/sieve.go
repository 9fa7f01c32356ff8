package broker

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"
)

// undecodable is the header by which a delivery says that some of its headers are left out, and why.
// Headers with reserved names are left out then, too: no bridge has written them.
const (
	reserved    = "x-delaybridge-"
	undecodable = reserved + "undecodable"
)

// Undecodable returns why some headers of a delivery are left out, or "" where none are: the
// library cannot decode them, and would end the connection, with all that is under way on it. A
// publisher can send a header that says so, and gets what it asks for.
func Undecodable(d *amqp.Delivery) string {
	reason, _ := d.Headers[undecodable].(string)
	return reason
}

// What the library decodes: maxFieldDepth and maxContainerElements of amqp091-go, and a frame of
// RabbitMQ's default frame_max, less its own eight bytes. A broker adds to headers on the way,
// and sends a frame that is too long by that.
const (
	deepest      = 32
	mostElements = 8192
	longestFrame = 128<<10 - 8
	// longestRead is more than any broker sends.
	longestRead = 64 << 20
)

// sieve leaves out headers that the library cannot decode, and says so in the header undecodable. All else
// passes as it is.
type sieve struct {
	net.Conn
	from  *bufio.Reader
	pass  int    // bytes of this frame that are still to be passed on unchanged
	frame []byte // one with a message's properties
	ready []byte // the part of it that has not been read
}

func newSieve(conn net.Conn) *sieve {
	return &sieve{Conn: conn, from: bufio.NewReaderSize(conn, 64<<10)}
}

func (s *sieve) Read(p []byte) (int, error) {
	if len(s.ready) == 0 && s.pass == 0 {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	if len(s.ready) > 0 {
		n := copy(p, s.ready)
		s.ready = s.ready[n:]
		return n, nil
	}
	n, err := s.from.Read(p[:min(len(p), s.pass)])
	s.pass -= n
	return n, err
}

// A frame is its type, the channel, the length of its payload, that, and an end
// (https://www.rabbitmq.com/resources/specs/amqp0-9-1.pdf, 4.2.3).
const (
	frameHead       = 7
	frameProperties = 2 // the type of one with a message's properties
)

// next looks at a frame that begins.
func (s *sieve) next() error {
	head, err := s.from.Peek(frameHead)
	if err != nil {
		return err
	}
	length := int64(binary.BigEndian.Uint32(head[3:]))
	switch {
	case head[0] == 'A': // no frame, but a broker that speaks another protocol
		s.pass = math.MaxInt
		return nil
	case head[0] != frameProperties || length > longestRead:
		s.pass = frameHead + int(length) + 1
		return nil
	}
	s.frame = slices.Grow(s.frame[:0], frameHead+int(length)+1)[:frameHead+int(length)+1]
	if _, err := io.ReadFull(s.from, s.frame); err != nil {
		return err
	}
	s.ready = sifted(s.frame)
	return nil
}

// Flags of the properties before the headers, and of those.
const (
	hasContentType     = 1 << 15
	hasContentEncoding = 1 << 14
	hasHeaders         = 1 << 13
)

// sifted returns the frame as the library can decode it.
func sifted(frame []byte) []byte {
	const flagsAt = frameHead + 12 // behind class, weight and the body's size
	if len(frame) < flagsAt+2 {
		return frame
	}
	flags, at := binary.BigEndian.Uint16(frame[flagsAt:]), flagsAt+2
	if flags&hasHeaders == 0 {
		return frame
	}
	for _, short := range []uint16{hasContentType, hasContentEncoding} {
		if flags&short != 0 && at < len(frame) {
			at += 1 + int(frame[at])
		}
	}
	if at+4 > len(frame) {
		return frame
	}
	end := at + 4 + int(binary.BigEndian.Uint32(frame[at:]))
	if end >= len(frame) {
		return frame
	}
	table := frame[at+4 : end]
	wrong := checkTable(table, 0)
	if wrong == nil && len(frame)-frameHead-1 > longestFrame {
		wrong = fmt.Errorf("they take %d bytes, and a frame holds %d", end-at, longestFrame)
	}
	if wrong == nil {
		return frame
	}
	reason := wrong.Error()
	kept := append([]byte{byte(len(undecodable))}, undecodable...)
	kept = append(binary.BigEndian.AppendUint32(append(kept, 'S'), uint32(len(reason))), reason...) //nolint:gosec // a line
	kept = appendDecodable(kept, table)
	sifted := slices.Concat(frame[:at], binary.BigEndian.AppendUint32(nil, uint32(len(kept))), kept, frame[end:]) //nolint:gosec // less than keptMost
	binary.BigEndian.PutUint32(sifted[3:], uint32(len(sifted)-frameHead-1))                                       //nolint:gosec // likewise
	return sifted
}

// keptMost bounds what is kept of headers of which some are left out: all that is needed to tell where a
// message comes from, and room in the frame for the other properties.
const keptMost = 64 << 10

// appendDecodable appends those entries of a table that the library can decode.
func appendDecodable(to, table []byte) []byte {
	for n := 1; len(table) > 0 && n < mostElements; n++ {
		name := 1 + int(table[0])
		if len(table) < name {
			break
		}
		rest, err := checkValue(table[name:], 0)
		if rest == nil && err != nil { // it is not known where the next one begins
			break
		}
		entry := table[:len(table)-len(rest)]
		if err == nil && len(to)+len(entry) <= keptMost && !bytes.HasPrefix(entry[1:name], []byte(reserved)) {
			to = append(to, entry...)
		}
		table = rest
	}
	return to
}

var errCutOff = errors.New("they are cut off")

// checkTable returns why the library cannot decode a table.
func checkTable(b []byte, depth int) error {
	for n := 0; len(b) > 0; n++ {
		name := 1 + int(b[0])
		if len(b) < name {
			return errCutOff
		}
		rest, err := checkValue(b[name:], depth)
		if err == nil && n >= mostElements {
			err = errTooMany
		}
		if err != nil {
			return err
		}
		b = rest
	}
	return nil
}

func checkArray(b []byte, depth int) error {
	for n := 0; len(b) > 0; n++ {
		rest, err := checkValue(b, depth)
		if err == nil && n >= mostElements {
			err = errTooMany
		}
		if err != nil {
			return err
		}
		b = rest
	}
	return nil
}

var errTooMany = fmt.Errorf("a table or array in them has more than %d entries", mostElements)

// checkValue returns what is behind a value with its type; nil with an error where that cannot be told.
func checkValue(b []byte, depth int) (rest []byte, err error) {
	if len(b) == 0 {
		return nil, errCutOff
	}
	kind, b := b[0], b[1:]
	size := 0
	switch kind {
	case 'V':
	case 't', 'b', 'B':
		size = 1
	case 's', 'u':
		size = 2
	case 'I', 'i', 'f':
		size = 4
	case 'D':
		size = 5
	case 'l', 'd', 'T':
		size = 8
	case 'S', 'x', 'A', 'F':
		if len(b) < 4 {
			return nil, errCutOff
		}
		size = int(binary.BigEndian.Uint32(b))
		b = b[4:]
	default:
		return nil, fmt.Errorf("a value in them is of type %q", kind)
	}
	if len(b) < size {
		return nil, errCutOff
	}
	value, rest := b[:size], b[size:]
	switch {
	case kind != 'A' && kind != 'F':
	case depth >= deepest:
		err = fmt.Errorf("they are nested deeper than %d", deepest)
	case kind == 'A':
		err = checkArray(value, depth+1)
	default:
		err = checkTable(value, depth+1)
	}
	return rest, err
}

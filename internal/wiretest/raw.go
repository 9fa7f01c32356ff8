package wiretest

import (
	"bytes"
	"encoding/binary"
	"net"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Long is an integer of wire type L, which other libraries send and amqp091-go
// cannot. It is sent as one of type l by clients that are not of [Dial].
type Long int64

// mark is what an integer begins with that is to be sent as a Long, of less than 2^48: long
// enough not to turn up among arbitrary messages by chance.
const mark = int64(0x5aa5) << markAt

const markAt = 48

// Prepared returns headers that amqp091-go can send, and over a connection of
// [Dial] sends as the ones given. Only what is not nested is looked at.
func Prepared(headers amqp.Table) amqp.Table {
	prepared := make(amqp.Table, len(headers))
	for name, value := range headers {
		if long, ok := value.(Long); ok {
			value = mark | int64(long)
		}
		prepared[name] = value
	}
	return prepared
}

// Dial connects a client that sends what amqp091-go cannot.
func Dial(url string) (*amqp.Connection, error) {
	return dialRewriting(url, func(b []byte) {
		tagged := binary.BigEndian.AppendUint64([]byte{'l'}, uint64(mark))[:1+8-markAt/8]
		for from := 0; ; {
			i := bytes.Index(b[from:], tagged)
			if i < 0 {
				return
			}
			b[from+i] = 'L'
			clear(b[from+i+1 : from+i+len(tagged)])
			from += i + len(tagged)
		}
	})
}

// DialBroken connects a client that has the broker read an integer header, whose
// value is Broken, as eight bytes of another type.
func DialBroken(url string, tag byte, payload uint64) (*amqp.Connection, error) {
	broken := binary.BigEndian.AppendUint64([]byte{'l'}, uint64(Broken))
	return dialRewriting(url, func(b []byte) {
		if i := bytes.Index(b, broken); i >= 0 {
			b[i] = tag
			binary.BigEndian.PutUint64(b[i+1:], payload)
		}
	})
}

// Broken is what [DialBroken] replaces.
const Broken = int64(0x5b5b5b5b5b5b5b5b)

// dialRewriting connects a client whose frames are changed on their way.
func dialRewriting(url string, rewrite func([]byte)) (*amqp.Connection, error) {
	return amqp.DialConfig(url, amqp.Config{Dial: func(network, address string) (net.Conn, error) {
		conn, err := amqp.DefaultDial(30*time.Second)(network, address)
		return rewriting{conn, rewrite}, err
	}})
}

type rewriting struct {
	net.Conn
	rewrite func([]byte)
}

// Write relies on the library's writing a small frame as a whole.
func (r rewriting) Write(b []byte) (int, error) {
	changed := bytes.Clone(b)
	r.rewrite(changed)
	return r.Conn.Write(changed)
}

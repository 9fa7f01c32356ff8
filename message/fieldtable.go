package message

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// AMQP 0-9-1 field tables. amqp091-go does not export its codec. The type tags
// are those RabbitMQ uses, which differ from the specification's
// (https://www.rabbitmq.com/amqp-0-9-1-errata, section 3).

func appendShortString(b []byte, s string) []byte {
	return append(append(b, byte(len(s))), s...) //nolint:gosec // Validate lets no longer one through
}

func appendLongString[T string | []byte](b []byte, s T) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...) //nolint:gosec // bounded by the message size
}

// appendSized appends what write appends, preceded by its length.
func appendSized(b []byte, write func([]byte) []byte) []byte {
	start := len(b)
	b = write(binary.BigEndian.AppendUint32(b, 0))
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4)) //nolint:gosec // bounded by the message size
	return b
}

func appendTable(b []byte, table amqp.Table) []byte {
	return appendSized(b, func(b []byte) []byte {
		// In order, so that a message is always written the same way.
		for _, name := range slices.Sorted(maps.Keys(table)) {
			b = appendValue(appendShortString(b, name), table[name])
		}
		return b
	})
}

//nolint:gosec // the conversions keep the bits
func appendValue(b []byte, value any) []byte {
	switch v := value.(type) {
	case nil:
		return append(b, 'V')
	case bool:
		if v {
			return append(b, 't', 1)
		}
		return append(b, 't', 0)
	case int8:
		return append(b, 'b', byte(v))
	case byte:
		return append(b, 'B', v)
	case int16:
		return binary.BigEndian.AppendUint16(append(b, 's'), uint16(v))
	case uint16:
		return binary.BigEndian.AppendUint16(append(b, 'u'), v)
	case int32:
		return binary.BigEndian.AppendUint32(append(b, 'I'), uint32(v))
	case uint32:
		return binary.BigEndian.AppendUint32(append(b, 'i'), v)
	case int64:
		return binary.BigEndian.AppendUint64(append(b, 'l'), uint64(v))
	case int:
		return binary.BigEndian.AppendUint64(append(b, 'l'), uint64(v))
	case float32:
		return binary.BigEndian.AppendUint32(append(b, 'f'), math.Float32bits(v))
	case float64:
		return binary.BigEndian.AppendUint64(append(b, 'd'), math.Float64bits(v))
	case amqp.Decimal:
		return binary.BigEndian.AppendUint32(append(b, 'D', v.Scale), uint32(v.Value))
	case time.Time:
		return binary.BigEndian.AppendUint64(append(b, 'T'), uint64(v.Unix()))
	case string:
		return appendLongString(append(b, 'S'), v)
	case []byte:
		return appendLongString(append(b, 'x'), v)
	case amqp.Table:
		return appendTable(append(b, 'F'), v)
	case []any:
		return appendSized(append(b, 'A'), func(b []byte) []byte {
			for _, element := range v {
				b = appendValue(b, element)
			}
			return b
		})
	}
	panic(fmt.Sprintf("message: Validate let a header of type %T through", value))
}

// HeaderBytes returns how many bytes headers take on the wire. They must be such
// as AMQP has.
func HeaderBytes(headers amqp.Table) int {
	n := 4
	for name, value := range headers {
		n += 1 + len(name) + valueBytes(value)
	}
	return n
}

func valueBytes(value any) int {
	const tag, length = 1, 4
	switch v := value.(type) {
	case nil:
		return tag
	case bool, byte, int8:
		return tag + 1
	case int16, uint16:
		return tag + 2
	case int32, uint32, float32:
		return tag + 4
	case amqp.Decimal:
		return tag + 5
	case string:
		return tag + length + len(v)
	case []byte:
		return tag + length + len(v)
	case amqp.Table:
		return tag + HeaderBytes(v)
	case []any:
		n := tag + length
		for _, element := range v {
			n += valueBytes(element)
		}
		return n
	}
	return tag + 8 // int, int64, float64, time.Time
}

var (
	errShort = errors.New("ends too early")
	errDeep  = fmt.Errorf("nested deeper than %d", MaxHeaderDepth)
)

// reader takes values off the front of rest. After the first fault it returns
// zero values and keeps the fault in err.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.rest = nil
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.fail(errShort)
		return make([]byte, min(max(n, 0), 8))
	}
	taken := r.rest[:n:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *reader) octet() byte         { return r.take(1)[0] }
func (r *reader) uint16() uint16      { return binary.BigEndian.Uint16(r.take(2)) }
func (r *reader) uint32() uint32      { return binary.BigEndian.Uint32(r.take(4)) }
func (r *reader) uint64() uint64      { return binary.BigEndian.Uint64(r.take(8)) }
func (r *reader) int64() int64        { return int64(r.uint64()) } //nolint:gosec // two's complement
func (r *reader) shortString() string { return string(r.take(int(r.octet()))) }

// sized takes a length and that many bytes.
func (r *reader) sized() []byte {
	if n := int64(r.uint32()); n <= int64(len(r.rest)) {
		return r.take(int(n))
	}
	r.fail(errShort)
	return nil
}

func (r *reader) table(depth int) amqp.Table {
	if depth > MaxHeaderDepth {
		r.fail(errDeep)
		return nil
	}
	table := amqp.Table{}
	for inner := (reader{rest: r.sized()}); ; {
		if len(inner.rest) == 0 {
			if inner.err != nil {
				r.fail(inner.err)
			}
			return table
		}
		name := inner.shortString()
		table[name] = inner.value(depth)
	}
}

func (r *reader) array(depth int) []any {
	if depth > MaxHeaderDepth {
		r.fail(errDeep)
		return nil
	}
	array := []any{}
	for inner := (reader{rest: r.sized()}); ; {
		if len(inner.rest) == 0 {
			if inner.err != nil {
				r.fail(inner.err)
			}
			return array
		}
		array = append(array, inner.value(depth))
	}
}

//nolint:gosec // the conversions keep the bits
func (r *reader) value(depth int) any {
	switch tag := r.octet(); tag {
	case 'V':
		return nil
	case 't':
		return r.octet() != 0
	case 'b':
		return int8(r.octet())
	case 'B':
		return r.octet()
	case 's':
		return int16(r.uint16())
	case 'u':
		return r.uint16()
	case 'I':
		return int32(r.uint32())
	case 'i':
		return r.uint32()
	case 'l':
		return r.int64()
	case 'f':
		return math.Float32frombits(r.uint32())
	case 'd':
		return math.Float64frombits(r.uint64())
	case 'D':
		return amqp.Decimal{Scale: r.octet(), Value: int32(r.uint32())}
	case 'T':
		return time.Unix(r.int64(), 0)
	case 'S':
		return string(r.sized())
	case 'x':
		return append([]byte{}, r.sized()...)
	case 'F':
		return r.table(depth + 1)
	case 'A':
		return r.array(depth + 1)
	default:
		if r.err == nil {
			r.fail(fmt.Errorf("unknown type tag %q", tag))
		}
		return nil
	}
}

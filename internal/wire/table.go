package wire

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

// AppendShortString appends a text of at most 255 bytes.
func AppendShortString(b []byte, s string) []byte {
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

// AppendTable appends a table.
func AppendTable(b []byte, table amqp.Table) []byte {
	return appendSized(b, func(b []byte) []byte {
		// In order, so that a message is always written the same way.
		for _, name := range slices.Sorted(maps.Keys(table)) {
			b = appendValue(AppendShortString(b, name), table[name])
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
		return AppendTable(append(b, 'F'), v)
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

// TableBytes returns how many bytes headers take on the wire. They must be such
// as AMQP has.
func TableBytes(headers amqp.Table) int {
	n := 4
	for name, value := range headers {
		n += 1 + len(name) + ValueBytes(value)
	}
	return n
}

// ValueBytes returns how many bytes a value takes in a table, with its type.
func ValueBytes(value any) int {
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
		return tag + TableBytes(v)
	case []any:
		n := tag + length
		for _, element := range v {
			n += ValueBytes(element)
		}
		return n
	}
	return tag + 8 // int, int64, float64, time.Time
}

var (
	errShort = errors.New("ends too early")
	errDeep  = fmt.Errorf("nested deeper than %d", MaxHeaderDepth)
)

// A Reader takes values off the front of Rest. After the first fault it returns
// zero values and keeps the fault in Err.
type Reader struct {
	Rest []byte
	Err  error
}

func (r *Reader) fail(err error) {
	if r.Err == nil {
		r.Err = err
	}
	r.Rest = nil
}

func (r *Reader) take(n int) []byte {
	if n < 0 || n > len(r.Rest) {
		r.fail(errShort)
		return make([]byte, min(max(n, 0), 8))
	}
	taken := r.Rest[:n:n]
	r.Rest = r.Rest[n:]
	return taken
}

// Octet takes a byte.
func (r *Reader) Octet() byte { return r.take(1)[0] }

// Uint16 takes two bytes.
func (r *Reader) Uint16() uint16 { return binary.BigEndian.Uint16(r.take(2)) }

// Int64 takes eight bytes.
func (r *Reader) Int64() int64 { return int64(r.uint64()) } //nolint:gosec // two's complement

// ShortString takes a text of at most 255 bytes.
func (r *Reader) ShortString() string { return string(r.take(int(r.Octet()))) }

func (r *Reader) uint32() uint32 { return binary.BigEndian.Uint32(r.take(4)) }
func (r *Reader) uint64() uint64 { return binary.BigEndian.Uint64(r.take(8)) }

// sized takes a length and that many bytes.
func (r *Reader) sized() []byte {
	if n := int64(r.uint32()); n <= int64(len(r.Rest)) {
		return r.take(int(n))
	}
	r.fail(errShort)
	return nil
}

// Table takes a table at a depth, of at most MaxHeaderDepth.
func (r *Reader) Table(depth int) amqp.Table {
	if depth > MaxHeaderDepth {
		r.fail(errDeep)
		return nil
	}
	table := amqp.Table{}
	for inner := (Reader{Rest: r.sized()}); ; {
		if len(inner.Rest) == 0 {
			if inner.Err != nil {
				r.fail(inner.Err)
			}
			return table
		}
		name := inner.ShortString()
		table[name] = inner.value(depth)
	}
}

func (r *Reader) array(depth int) []any {
	if depth > MaxHeaderDepth {
		r.fail(errDeep)
		return nil
	}
	array := []any{}
	for inner := (Reader{Rest: r.sized()}); ; {
		if len(inner.Rest) == 0 {
			if inner.Err != nil {
				r.fail(inner.Err)
			}
			return array
		}
		array = append(array, inner.value(depth))
	}
}

//nolint:gosec // the conversions keep the bits
func (r *Reader) value(depth int) any {
	switch tag := r.Octet(); tag {
	case 'V':
		return nil
	case 't':
		return r.Octet() != 0
	case 'b':
		return int8(r.Octet())
	case 'B':
		return r.Octet()
	case 's':
		return int16(r.Uint16())
	case 'u':
		return r.Uint16()
	case 'I':
		return int32(r.uint32())
	case 'i':
		return r.uint32()
	case 'l':
		return r.Int64()
	case 'f':
		return math.Float32frombits(r.uint32())
	case 'd':
		return math.Float64frombits(r.uint64())
	case 'D':
		return amqp.Decimal{Scale: r.Octet(), Value: int32(r.uint32())}
	case 'T':
		return time.Unix(r.Int64(), 0)
	case 'S':
		return string(r.sized())
	case 'x':
		return append([]byte{}, r.sized()...)
	case 'F':
		return r.Table(depth + 1)
	case 'A':
		return r.array(depth + 1)
	default:
		if r.Err == nil {
			r.fail(fmt.Errorf("unknown type tag %q", tag))
		}
		return nil
	}
}

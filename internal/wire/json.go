package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TableOfJSON reads headers from a JSON object. Whole numbers become int64, all others
// float64.
func TableOfJSON(text []byte) (amqp.Table, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var object map[string]any
	if err := decoder.Decode(&object); err != nil {
		return nil, fmt.Errorf("want a JSON object: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("want one JSON object: there is something after it")
	}
	return TableOf(object)
}

// TableOf turns a JSON object, decoded with json.Number, into headers.
func TableOf(object map[string]any) (amqp.Table, error) {
	if object == nil {
		return nil, nil
	}
	table := make(amqp.Table, len(object))
	for name, value := range object {
		header, err := headerOf(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		table[name] = header
	}
	return table, nil
}

func headerOf(value any) (any, error) {
	switch v := value.(type) {
	case json.Number:
		if whole, err := v.Int64(); err == nil {
			return whole, nil
		}
		float, err := v.Float64()
		if err != nil {
			return nil, fmt.Errorf("%s is out of range", v)
		}
		return float, nil
	case map[string]any:
		return TableOf(v)
	case []any:
		array := make([]any, len(v))
		for i, element := range v {
			var err error
			if array[i], err = headerOf(element); err != nil {
				return nil, err
			}
		}
		return array, nil
	}
	return value, nil
}

// JSONOfTable writes headers as a JSON object from which [TableOfJSON] reads the same ones,
// except the sizes of numbers. What JSON has no type for is an error.
func JSONOfTable(table amqp.Table) ([]byte, error) {
	object, err := objectOf(table)
	if err != nil {
		return nil, err
	}
	return json.Marshal(object)
}

func objectOf(table amqp.Table) (map[string]any, error) {
	object := make(map[string]any, len(table))
	for name, value := range table {
		written, err := valueOf(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		object[name] = written
	}
	return object, nil
}

func valueOf(value any) (any, error) {
	switch v := value.(type) {
	case nil, bool, byte, int8, int16, uint16, int, int32, uint32, int64:
		return v, nil
	case float32:
		return number(float64(v), 32)
	case float64:
		return number(v, 64)
	case string:
		if !utf8.ValidString(v) {
			return nil, errors.New("a string that is no UTF-8 cannot be written as JSON")
		}
		return v, nil
	case amqp.Table:
		return objectOf(v)
	case []any:
		array := make([]any, len(v))
		for i, element := range v {
			var err error
			if array[i], err = valueOf(element); err != nil {
				return nil, err
			}
		}
		return array, nil
	}
	return nil, fmt.Errorf("JSON has no type for a Go %T: use a string", value)
}

// number keeps a fraction in a float, so that it is not read as a whole number.
func number(f float64, bits int) (any, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, fmt.Errorf("JSON has no %v", f)
	}
	text := strconv.AppendFloat(nil, f, 'g', -1, bits)
	if !bytes.ContainsAny(text, ".e") {
		text = append(text, ".0"...)
	}
	return json.RawMessage(text), nil
}

package broker

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// properties is a frame with headers, and with the properties before and behind them.
func properties(table []byte) []byte {
	payload := make([]byte, 12) // class, weight, size of the body
	payload = binary.BigEndian.AppendUint16(payload, hasContentType|hasContentEncoding|hasHeaders|1<<12)
	payload = append(payload, "\x02ct\x00"...)
	payload = binary.BigEndian.AppendUint32(payload, uint32(len(table)))
	payload = append(append(payload, table...), 2) // delivery mode
	return frameOf(frameProperties, payload)
}

func frameOf(kind byte, payload []byte) []byte {
	frame := binary.BigEndian.AppendUint32([]byte{kind, 0, 7}, uint32(len(payload)))
	return append(append(frame, payload...), 0xCE)
}

func field(name string, kind byte, value string) string {
	return string(rune(len(name))) + name + string(kind) + value
}

func sized(content string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(content)))) + content
}

func nested(levels int, with func(string) string) string {
	content := ""
	for range levels {
		content = with(content)
	}
	return content
}

func deepTable(levels int) string {
	return nested(levels, func(inner string) string { return field("t", 'F', sized(inner)) })
}

func deepArray(levels int) string {
	return field("a", 'A', sized(nested(levels, func(inner string) string { return "A" + sized(inner) })))
}

type over struct {
	net.Conn
	io.Reader
}

func (o over) Read(p []byte) (int, error) { return o.Reader.Read(p) }

// What the library decodes passes byte by byte; of what it does not, only that is left out.
func TestSieveLeavesOutWhatCannotBeDecoded(t *testing.T) {
	t.Parallel()
	const fine = "\x01nV" + "\x01bt\x01" + "\x01lLLLLLLLL"
	good := field("n", 'V', "") + field("b", 't', "\x01") + field("l", 'l', "12345678") + field("s", 'S', sized("text")) + field("d", 'D', "12345") +
		field("x", 'x', sized("bytes")) + field("f", 'F', sized(field("u", 'u', "12"))) + field("a", 'A', sized("I1234"+"V"))
	for name, c := range map[string]struct{ table, left, says string }{
		"all types":                {table: good},
		"none":                     {},
		"as deep as may be":        {table: deepTable(32) + deepArray(31)},
		"as many as may be":        {table: field("a", 'A', sized(strings.Repeat("V", mostElements)))},
		"a table too deep":         {good + deepTable(33) + field("z", 'V', ""), good + field("z", 'V', ""), "nested deeper than 32"},
		"an array too deep":        {deepArray(32) + good, good, "nested deeper than 32"},
		"an array too long":        {good + field("a", 'A', sized(strings.Repeat("V", mostElements+1))), good, "more than 8192"},
		"a table too long":         {strings.Repeat(field("k", 'V', ""), mostElements+1), strings.Repeat(field("k", 'V', ""), mostElements-1), "more than 8192"},
		"a type that there is not": {good + fine, good + field("n", 'V', "") + field("b", 't', "\x01"), "of type 'L'"},
		"cut off":                  {good + "\x05name", good, "cut off"},
		"a value cut off":          {good + field("i", 'I', "123"), good, "cut off"},
		"more than a frame":        {good + field("x", 'x', sized(strings.Repeat("x", 130<<10))), good, "a frame holds 131064"},
		"reserved names":           {field("x-delaybridge-queue", 'S', sized("payroll")) + deepTable(33), "", "nested deeper"},
	} {
		in := slices.Concat(frameOf(1, []byte("method")), properties([]byte(c.table)), frameOf(3, bytes.Repeat([]byte("b"), 100_000)), frameOf(8, nil))
		want := in
		if c.says != "" {
			sifted := sifted(properties([]byte(c.table)))
			if !bytes.Contains(sifted, []byte(undecodable)) || !bytes.Contains(sifted, []byte(c.says)) || !bytes.HasSuffix(sifted, append([]byte(c.left), 2, 0xCE)) {
				t.Errorf("%s: became %.300q, want what is left and %q", name, sifted, c.says)
			}
			if int(binary.BigEndian.Uint32(sifted[3:])) != len(sifted)-8 || len(sifted) > longestFrame {
				t.Errorf("%s: a frame of %d bytes says %d", name, len(sifted), binary.BigEndian.Uint32(sifted[3:]))
			}
			want = slices.Concat(frameOf(1, []byte("method")), sifted, frameOf(3, bytes.Repeat([]byte("b"), 100_000)), frameOf(8, nil))
		}
		for how, reader := range map[string]io.Reader{"at once": bytes.NewReader(in), "byte by byte": iotest.OneByteReader(bytes.NewReader(in))} {
			got, err := io.ReadAll(newSieve(over{nil, reader}))
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s, %s: %d bytes (%v), want %d", name, how, len(got), err, len(want))
			}
		}
	}
}

// A broker that speaks another protocol answers with its name.
func TestSievePassesAnotherProtocol(t *testing.T) {
	t.Parallel()
	got, err := io.ReadAll(newSieve(over{nil, strings.NewReader("AMQP\x00\x00\x09\x01 and more")}))
	if err != nil || string(got) != "AMQP\x00\x00\x09\x01 and more" {
		t.Errorf("got %q (%v)", got, err)
	}
}

// Whatever comes, the sieve does not fail over it, and what it lets through it lets through again.
func FuzzSieve(f *testing.F) {
	f.Add([]byte(deepTable(33)))
	f.Add([]byte(field("a", 'A', sized("I1234"))))
	f.Fuzz(func(t *testing.T, table []byte) {
		once := slices.Clone(sifted(properties(table)))
		if again := sifted(once); !bytes.Equal(once, again) {
			t.Errorf("%q became %q, and that %q", table, once, again)
		}
	})
}

package traffic

import (
	"testing"
	"time"
)

func FuzzPublishLine(f *testing.F) {
	for _, seed := range []string{
		`{"id":"a","key":"k","in":"1s","body":{"x":[1]},"headers":{"a":{"b":[null,1.5]}}}`,
		`{"id":"a","key":"k","at":"2030-01-01T08:00:00Z","body_base64":"AAE="}`, `null`, `[`, `{"headers":{"":1e999}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var p publication
		if p.parse(line) != nil {
			return
		}
		if err := p.message.Validate(); err != nil {
			t.Errorf("parsed %q into what is not valid: %v", line, err)
		}
		if err := p.when.Validate(time.Now()); err != nil {
			t.Errorf("parsed %q into what is not valid: %v", line, err)
		}
	})
}

package topology_test

import (
	"encoding/json"
	"net/http"
	"testing"
)

func TestEverythingSaysWhatItIsFor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.apply(t)
	for _, q := range b.Queues() {
		b.says(t, "/api/queues/"+b.env.VHost+"/"+q.Name, q.About)
	}
	for _, x := range b.Exchanges() {
		b.says(t, "/api/exchanges/"+b.env.VHost+"/"+x.Name, x.About)
	}
}

// says expects an entity to tell what it is for.
func (b *bench) says(t *testing.T, path, about string) {
	t.Helper()
	var entity struct{ Arguments map[string]any }
	if err := json.Unmarshal([]byte(b.manage(t, http.MethodGet, path, "")), &entity); err != nil {
		t.Fatal(err)
	}
	if about == "" || entity.Arguments["about"] != about {
		t.Errorf("%s says %q, want %q", path, entity.Arguments["about"], about)
	}
}

func TestWhatAnEarlierReleaseHasDeclaredGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ch := b.channel(t)
	for _, q := range b.Queues() {
		if _, err := ch.QueueDeclare(q.Name, true, false, false, false, q.Args); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range b.Exchanges() {
		if err := ch.ExchangeDeclare(x.Name, x.Kind, true, false, false, false, x.Args); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Repair(t.Context(), b.conn); err != nil {
		t.Errorf("repair: %v", err)
	}
	b.apply(t)
	b.verifiedWithout(t)
}

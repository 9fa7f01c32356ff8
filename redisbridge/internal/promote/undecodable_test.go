package promote

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/wire"
)

func TestUndecodable(t *testing.T) {
	t.Parallel()
	p := undecodable("o-1", []byte{1, 2}, wire.ErrEnvelope)
	if p.MessageId != "o-1" || p.DeliveryMode != amqp.Persistent || string(p.Body) != "\x01\x02" || p.Headers[wire.HeaderError] != wire.ErrEnvelope.Error() {
		t.Errorf("got %+v", p)
	}
	if err := p.Headers.Validate(); err != nil {
		t.Error(err)
	}
}

package broker

import (
	"crypto/tls"
	"errors"
	"fmt"
	"regexp"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/tlsurl"
)

// Errors that callers branch on.
var (
	// ErrUnconfirmed means that it is unknown whether the server has the
	// message: the connection or the channel ended, or the caller stopped
	// waiting, between sending and the broker's answer.
	ErrUnconfirmed = errors.New("unconfirmed: the server may or may not have the message; send it again with the same ID")
	// ErrNotSent means that the message never left this process.
	ErrNotSent = errors.New("not sent")
	// ErrRefused means that the broker answered with basic.nack: a queue does not take the
	// message, for instance since it is at its length limit. RabbitMQ answers so as soon as
	// one of the queues does, so another one may have it
	// (https://www.rabbitmq.com/docs/confirms).
	ErrRefused = errors.New("refused by the broker (nack): a queue does not take the message")
	// ErrUnroutable means that the exchange led to no queue, so the broker
	// returned the message.
	ErrUnroutable = errors.New("unroutable: no queue is bound for the message; run 'delaybridge topology verify'")
	// ErrUnreachable means that no connection came about in the time allowed.
	ErrUnreachable = errors.New("cannot reach RabbitMQ")
	// ErrMissing means that an exchange or queue does not exist.
	ErrMissing = errors.New("run 'delaybridge topology apply' first, with the same prefix and virtual host")
	// ErrForbidden means that the user lacks a permission.
	ErrForbidden = errors.New("grant the user this permission ('rabbitmqctl set_permissions'), or use another user")
	// ErrConfiguration means that a URL or what it names is wrong, so that
	// trying again does not help.
	ErrConfiguration = errors.New("wrong RabbitMQ URL")
)

// classifyDial turns an error of connecting into one that wraps
// ErrConfiguration where only a person can mend it. Everything else may pass:
// a broker that starts, a reached connection limit, a virtual host still down.
func classifyDial(err error, rawURL string) error {
	var refused *amqp.Error
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &certificate):
		return fmt.Errorf("%w: %s: the server's certificate is not trusted: %w", ErrConfiguration, Redact(rawURL), err)
	case errors.Is(err, tlsurl.ErrSettings):
		return fmt.Errorf("%w: %s: %w", ErrConfiguration, Redact(rawURL), err)
	case errors.Is(err, amqp.ErrSASL):
		return fmt.Errorf("%w: %s: the broker does not offer this auth_mechanism (without one, plain): "+
			"for external, enable its plugin rabbitmq_auth_mechanism_ssl, set auth_mechanisms.1 = EXTERNAL, and have it verify clients (verify_peer): %w",
			ErrConfiguration, Redact(rawURL), err)
	// Where the connection ends in the middle of the handshake, the library assumes
	// that the password is wrong. RabbitMQ says so itself (see outspoken).
	case !errors.As(err, &refused) || !refused.Server:
		return err
	case refused.Code == amqp.AccessRefused && strings.Contains(refused.Reason, "mechanism EXTERNAL"):
		return fmt.Errorf("%w: %s: the broker has no user by the name in the client's certificate: add one, or see ssl_cert_login_from in its configuration, and its log: %w",
			ErrConfiguration, Redact(rawURL), err)
	case refused.Code == amqp.AccessRefused && !strings.Contains(refused.Reason, "vhost"):
		return fmt.Errorf("%w: %s: the broker refused user name or password: %w", ErrConfiguration, Redact(rawURL), err)
	case refused.Code == amqp.AccessRefused,
		refused.Code == amqp.NotAllowed && strings.Contains(refused.Reason, "not found"),
		refused.Code == amqp.NotAllowed && strings.Contains(refused.Reason, "refused for user"):
		return fmt.Errorf("%w: %s: create the virtual host or permit the user to use it: %w", ErrConfiguration, Redact(rawURL), err)
	}
	return err
}

// Classify adds the remedy to an error by which the broker closed a channel. A
// nil error stays nil, and what the next attempt may mend stays as it is.
func Classify(err error) error {
	var closed *amqp.Error
	if !errors.As(err, &closed) || !closed.Server {
		return err
	}
	switch {
	// The broker also says NOT_FOUND of a queue whose node is down, which passes.
	case closed.Code == amqp.NotFound && strings.Contains(closed.Reason, "NOT_FOUND - no "):
		return fmt.Errorf("%w: %w", err, ErrMissing)
	// And ACCESS_REFUSED of a queue while it has an exclusive consumer.
	case closed.Code == amqp.AccessRefused && !strings.Contains(closed.Reason, "in exclusive use"):
		return fmt.Errorf("%w: %w", err, ErrForbidden)
	}
	return err
}

var missingExchange = regexp.MustCompile(`NOT_FOUND - no exchange '([^']+)'`)

// MissingExchange returns the exchange that the broker did not find, where err
// is about one.
func MissingExchange(err error) (name string, ok bool) {
	var closed *amqp.Error
	if !errors.Is(err, ErrMissing) || !errors.As(err, &closed) {
		return "", false
	}
	found := missingExchange.FindStringSubmatch(closed.Reason)
	if found == nil {
		return "", false
	}
	return found[1], true
}

// Permanent reports whether trying again cannot help before a person has
// changed something.
func Permanent(err error) bool {
	return errors.Is(err, ErrMissing) || errors.Is(err, ErrForbidden) || errors.Is(err, ErrConfiguration)
}

// Objected reports whether the broker closed a channel or connection over what
// was sent, rather than for reasons of its own.
func Objected(err error) bool {
	var closed *amqp.Error
	return errors.As(err, &closed) && closed.Server && closed.Code != amqp.ConnectionForced && !Permanent(err)
}

// Unfit reports whether the broker closed a channel or connection over the message itself,
// such as its size, rather than over what it is to go through.
func Unfit(err error) bool {
	var closed *amqp.Error
	return Objected(err) && errors.As(err, &closed) && (closed.Code == amqp.PreconditionFailed || closed.Code == amqp.FrameError)
}

package redisbridge

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/delaybridge/delaybridge/redisbridge/internal/commands"
)

// idsAtOnce is how many messages of a command Redis is asked about at the same time, which then
// flushes to its disk once for several.
const idsAtOnce = 16

// carryOut does what a command asks for. What a command does is harmless when it is repeated, so that
// it can be done again from the beginning where Redis did not answer.
func (b *Bridge) carryOut(ctx context.Context, r *commands.Request) ([]any, error) {
	park := b.park.OfEntry(r.Entry)
	if r.Group != "" {
		return park.carryOutGroup(ctx, r)
	}
	of := make([][]any, len(r.IDs))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(idsAtOnce)
	for i, id := range r.IDs {
		work.Go(func() (err error) {
			of[i], err = park.carryOut(ctx, r, id)
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return nil, err
	}
	results := []any{}
	for _, list := range of {
		results = append(results, list...)
	}
	return results, nil
}

// mostDescribed is how many messages of a group an answer describes.
const mostDescribed = 1000

func (p *Park) carryOutGroup(ctx context.Context, r *commands.Request) ([]any, error) {
	var change GroupChange
	var err error
	switch r.Kind {
	case commands.Cancel:
		change, err = p.CancelGroup(ctx, r.Group)
	case commands.Reschedule:
		change, err = p.RescheduleGroup(ctx, r.Group, r.When)
	default:
		results := []any{}
		var lost error
		err = p.Group(ctx, r.Group, func(id string) bool {
			var list []any
			list, lost = p.describe(ctx, id)
			results = append(results, list...)
			return lost == nil && len(results) < mostDescribed
		})
		return results, errors.Join(err, lost)
	}
	return []any{change}, err
}

func (p *Park) carryOut(ctx context.Context, r *commands.Request, id string) ([]any, error) {
	var change Change
	var err error
	switch r.Kind {
	case commands.Cancel:
		change, err = p.Cancel(ctx, id)
	case commands.Reschedule:
		change, err = p.Reschedule(ctx, id, r.When)
	default:
		return p.describe(ctx, id)
	}
	if errors.Is(err, ErrInvalid) { // for good
		return []any{failed{ID: id, Outcome: "failed", Error: err.Error()}}, nil
	}
	return []any{change}, err
}

// failed is the result for a message that cannot be changed.
type failed struct {
	ID      string `json:"id"`
	Outcome string `json:"outcome"`
	Error   string `json:"error"`
}

// describe returns what is known of each message with an ID.
func (p *Park) describe(ctx context.Context, id string) ([]any, error) {
	all, err := p.GetAll(ctx, id)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return []any{&MessageState{ID: id}}, nil
	}
	var list []any
	for i := range all {
		list = append(list, &all[i])
	}
	return list, nil
}

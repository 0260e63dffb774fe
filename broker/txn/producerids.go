package txn

import (
	"context"
	"fmt"
)

// BlockSource gives out ranges of producer ids, [first, end), that nobody else in the cluster gets.
type BlockSource func(ctx context.Context) (first, end int64, err error)

// ProducerIDs hands out single producer ids from blocks: one command of the metastore for each thousand producers. Ids
// of a block that were not handed out before a stop are lost, which costs nothing in 63 bits.
type ProducerIDs struct {
	source BlockSource
	// turn holds one token: whoever has it may use the fields below, also while it waits for a new block. It is a
	// channel because waiting for it must end with a context.
	turn chan struct{}
	next int64
	end  int64
}

// NewProducerIDs makes an allocator that has no block yet.
func NewProducerIDs(source BlockSource) *ProducerIDs {
	return &ProducerIDs{source: source, turn: make(chan struct{}, 1)}
}

// Next returns an id that no producer has had. It fails when no block can be had before ctx is done.
func (p *ProducerIDs) Next(ctx context.Context) (int64, error) {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return 0, fmt.Errorf("wait for a producer id: %w", ctx.Err())
	}
	defer func() { <-p.turn }()
	if p.next == p.end {
		first, end, err := p.source(ctx)
		if err != nil {
			return 0, fmt.Errorf("get a block of producer ids: %w", err)
		}
		p.next, p.end = first, end
	}
	id := p.next
	p.next++
	return id, nil
}

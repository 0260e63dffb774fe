package api

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/txn"
	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// listTransactions serves ListTransactions v0–v2: the transactional ids that this broker coordinates. v1 filters by how
// long a transaction is open, v2 by a regular expression (RE2) that the whole id must match.
func (h *Handlers) listTransactions(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrListTransactionsRequest())
	if err != nil {
		return malformed(err)
	}
	return later(req, func(ctx context.Context) kmsg.Response {
		resp := kmsg.NewPtrListTransactionsResponse()
		filter, err := newTransactionFilter(request, time.Now().UnixMilli())
		var listed []txn.Listed
		if err == nil {
			listed, err = h.options.Transactions.List(ctx, filter.wants)
		}
		if err != nil {
			resp.ErrorCode = int16(kafka.CodeOf(err))
			return resp
		}
		resp.UnknownStateFilters = filter.unknownStates
		for _, one := range listed {
			state := kmsg.NewListTransactionsResponseTransactionState()
			state.TransactionalID, state.ProducerID = one.TransactionalID, one.ID
			state.TransactionState = one.State.String()
			resp.TransactionStates = append(resp.TransactionStates, state)
		}
		return resp
	})
}

// transactionFilter is what a list of transactions is to hold.
type transactionFilter struct {
	request       *kmsg.ListTransactionsRequest
	states        []txn.State
	unknownStates []string
	pattern       *regexp.Regexp // nil: any
	nowMs         int64
}

func newTransactionFilter(request *kmsg.ListTransactionsRequest, nowMs int64) (*transactionFilter, error) {
	f := &transactionFilter{request: request, nowMs: nowMs}
	for _, name := range request.StateFilters {
		if state, ok := txn.ParseState(name); ok {
			f.states = append(f.states, state)
		} else {
			f.unknownStates = append(f.unknownStates, name)
		}
	}
	if text := request.TransactionalIDPattern; text != nil && *text != "" {
		if _, err := regexp.Compile(*text); err != nil {
			return nil, fmt.Errorf("the pattern %q is no regular expression: %s: %w", *text, err.Error(),
				kafka.InvalidRegularExpression)
		}
		f.pattern = regexp.MustCompile(`\A(?:` + *text + `)\z`)
	}
	return f, nil
}

func (f *transactionFilter) wants(one txn.Listed) bool {
	switch {
	case len(f.request.ProducerIDFilters) > 0 && !slices.Contains(f.request.ProducerIDFilters, one.ID),
		len(f.request.StateFilters) > 0 && !slices.Contains(f.states, one.State),
		f.request.DurationFilterMillis >= 0 && f.nowMs-one.StartedMs <= f.request.DurationFilterMillis:
		return false
	}
	return f.pattern == nil || f.pattern.MatchString(one.TransactionalID)
}

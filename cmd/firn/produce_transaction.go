package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// What became of the transaction in which a command has produced.
const (
	transactionCommitted = "committed"
	transactionAborted   = "aborted"
	transactionUnknown   = "unknown"
)

// endPatience is how long the end of a transaction may take. It is given also after an interrupt: who leaves a
// transaction open holds its readers back until it times out.
const endPatience = 30 * time.Second

// transactionFlags are those of producing in a transaction.
type transactionFlags struct {
	id      string
	timeout time.Duration

	outcome string
}

func (t *transactionFlags) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&t.id, "transactional-id", "",
		"send everything in one transaction of this id; whoever else uses the id is fenced")
	flags.DurationVar(&t.timeout, "transaction-timeout", time.Minute,
		"when the cluster aborts the transaction unless it has ended; the cluster bounds it (transaction.max.timeout.ms)")
}

// check reads what needs no cluster.
func (t *transactionFlags) check(sending *sendingFlags, given func(flag string) bool) error {
	switch {
	case t.id == "" && given("transactional-id"):
		return errors.New("--transactional-id is empty")
	case t.id == "" && given("transaction-timeout"):
		return errors.New("--transaction-timeout belongs to --transactional-id")
	case t.id != "" && !sending.idempotent:
		return errors.New("--transactional-id needs --acks all and --idempotent")
	case t.timeout < time.Millisecond:
		return errors.New("--transaction-timeout must be positive")
	}
	return nil
}

func (t *transactionFlags) options() []kgo.Opt {
	if t.id == "" {
		return nil
	}
	return []kgo.Opt{kgo.TransactionalID(t.id), kgo.TransactionTimeout(t.timeout)}
}

// run has send send in a transaction, if one is asked for, and ends it: as committed only if all was sent.
func (t *transactionFlags) run(client *session, send func() error) error {
	if t.id == "" {
		return send()
	}
	if err := client.BeginTransaction(); err != nil {
		return fmt.Errorf("begin a transaction of %s: %w", t.id, err)
	}
	err := send()
	ctx, stop := context.WithTimeout(context.WithoutCancel(client.ctx), endPatience)
	defer stop()
	if err != nil {
		return errors.Join(err, t.abort(ctx, client))
	}
	if err = client.EndTransaction(ctx, kgo.TryCommit); err == nil {
		t.outcome = transactionCommitted
		return nil
	}
	t.outcome = transactionUnknown // unless kgo can tell that the commit was never asked for
	if errors.Is(err, kerr.OperationNotAttempted) || errors.Is(err, kerr.TransactionAbortable) {
		err = errors.Join(err, t.abort(ctx, client))
	}
	return fmt.Errorf("commit the transaction of %s: %w", t.id, err)
}

// abort ends the transaction so that nobody sees it.
func (t *transactionFlags) abort(ctx context.Context, client *session) error {
	t.outcome = transactionAborted
	if err := client.AbortBufferedRecords(ctx); err != nil {
		return t.notAborted(err)
	}
	return t.notAborted(client.EndTransaction(ctx, kgo.TryAbort))
}

// notAborted says what becomes of a transaction that could not be aborted. Its outcome is the same, only later.
func (t *transactionFlags) notAborted(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("abort the transaction of %s, which the cluster will do when it times out: %w", t.id, err)
}

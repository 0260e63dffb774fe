package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Call is one operation that passes a Faulty bucket.
type Call struct {
	Number    int // of the call, from 1
	Operation Operation
	Key       string // the prefix of a list; the first key of a delete
	Offset    int64  // of a get
	Bytes     int64  // put or asked for
}

// String prints the call as test scripts show it.
func (c Call) String() string {
	text := fmt.Sprintf("%s %s", c.Operation, c.Key)
	switch c.Operation {
	case OpGet:
		text += fmt.Sprintf(" [%d, %d)", c.Offset, c.Offset+c.Bytes)
	case OpPut, OpPutIfAbsent:
		text += fmt.Sprintf(" %d bytes", c.Bytes)
	}
	return text
}

// Fault is what happens to a call. The zero value lets it pass.
type Fault struct {
	kind  faultKind
	bytes int
	delay time.Duration
}

type faultKind int

const (
	faultNone faultKind = iota
	faultRefuse
	faultLoseAnswer
	faultCut
	faultStall
	faultDelay
)

// Refuse answers ErrUnavailable, and nothing has happened.
func Refuse() Fault { return Fault{kind: faultRefuse} }

// LoseAnswer performs the call and then answers ErrUnavailable: the outcome that a client must not take for a failure.
func LoseAnswer() Fault { return Fault{kind: faultLoseAnswer} }

// CutAfter ends a get with ErrUnavailable after so many bytes; other calls are refused.
func CutAfter(bytes int) Fault { return Fault{kind: faultCut, bytes: bytes} }

// Stall never answers: the call ends with its context.
func Stall() Fault { return Fault{kind: faultStall} }

// Delay performs the call after a while.
func Delay(by time.Duration) Fault { return Fault{kind: faultDelay, delay: by} }

// String names the fault.
func (f Fault) String() string {
	switch f.kind {
	case faultRefuse:
		return "refused"
	case faultLoseAnswer:
		return "answer lost"
	case faultCut:
		return fmt.Sprintf("cut after %d bytes", f.bytes)
	case faultStall:
		return "stalled"
	case faultDelay:
		return "delayed by " + f.delay.String()
	}
	return "passed"
}

// Predicate selects calls and prints itself, so that a failing test says which faults it ran under.
type Predicate struct {
	text  string
	match func(Call) bool
}

// String prints the predicate.
func (p Predicate) String() string { return p.text }

// On selects the calls of an operation.
func On(operation Operation) Predicate {
	return Predicate{text: "on " + string(operation), match: func(c Call) bool { return c.Operation == operation }}
}

// Always selects every call.
func Always() Predicate { return Predicate{text: "always", match: func(Call) bool { return true }} }

// KeyContains selects calls by a part of the key.
func KeyContains(part string) Predicate {
	return Predicate{text: fmt.Sprintf("key contains %q", part), match: func(c Call) bool {
		return strings.Contains(c.Key, part)
	}}
}

// And selects the calls that all predicates select.
func And(predicates ...Predicate) Predicate {
	texts := make([]string, len(predicates))
	for i, predicate := range predicates {
		texts[i] = predicate.text
	}
	return Predicate{text: strings.Join(texts, " and "), match: func(c Call) bool {
		for _, predicate := range predicates {
			if !predicate.match(c) {
				return false
			}
		}
		return true
	}}
}

// Times selects the calls first to last, counted from 1, of those that the predicate selects.
func Times(first, last int, predicate Predicate) Predicate {
	seen := 0 // Faulty calls match under its lock
	return Predicate{text: fmt.Sprintf("%s, times %d to %d", predicate.text, first, last), match: func(c Call) bool {
		if !predicate.match(c) {
			return false
		}
		seen++
		return first <= seen && seen <= last
	}}
}

// Rule is a fault and when it strikes.
type Rule struct {
	When Predicate
	Then Fault
}

// String prints the rule.
func (r Rule) String() string { return r.When.String() + ": " + r.Then.String() }

// Faulty is a bucket whose calls fail by rule; the first rule that fits decides.
type Faulty struct {
	bucket Bucket
	trace  func(Call, Fault) // told of each call; may be nil

	mu     sync.Mutex // guards the fields below, and what Times counts
	rules  []Rule
	number int
}

var _ Bucket = (*Faulty)(nil)

// NewFaulty wraps bucket. trace is told of each call and what becomes of it; nil is allowed.
func NewFaulty(bucket Bucket, trace func(Call, Fault), rules ...Rule) *Faulty {
	return &Faulty{bucket: bucket, trace: trace, rules: rules}
}

// SetRules replaces the rules.
func (f *Faulty) SetRules(rules ...Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = rules
}

func (f *Faulty) decide(call *Call) Fault {
	f.mu.Lock()
	f.number++
	call.Number = f.number
	fault := Fault{}
	for _, rule := range f.rules {
		if rule.When.match(*call) {
			fault = rule.Then
			break
		}
	}
	f.mu.Unlock()
	if f.trace != nil {
		f.trace(*call, fault)
	}
	return fault
}

// run performs a call, or what its fault leaves of it.
func (f *Faulty) run(ctx context.Context, call Call, perform func() error) error {
	switch fault := f.decide(&call); fault.kind {
	case faultNone:
		return perform()
	case faultStall, faultDelay:
		if err := fault.wait(ctx); err != nil {
			return localFailure(call.Operation, "faulty", call.Key, nil, err)
		}
		return perform()
	case faultLoseAnswer:
		if err := perform(); err != nil {
			return err
		}
		return f.failure(call, fault)
	default:
		return f.failure(call, fault)
	}
}

// wait is over when the call may go on, which one that stalls never may.
func (f Fault) wait(ctx context.Context) error {
	var over <-chan time.Time
	if f.kind == faultDelay {
		over = time.After(f.delay)
	}
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *Faulty) failure(call Call, fault Fault) error {
	return &Error{Operation: call.Operation, Bucket: "faulty", Key: call.Key, Status: "injected", Kind: ErrUnavailable,
		Err: errors.New(fault.String())}
}

// Put implements Bucket.
func (f *Faulty) Put(ctx context.Context, key string, body io.ReaderAt, size int64, options PutOptions) error {
	return f.run(ctx, Call{Operation: OpPut, Key: key, Bytes: size}, func() error {
		return f.bucket.Put(ctx, key, body, size, options)
	})
}

// PutIfAbsent implements Bucket.
func (f *Faulty) PutIfAbsent(ctx context.Context, key string, data []byte) (created bool, err error) {
	err = f.run(ctx, Call{Operation: OpPutIfAbsent, Key: key, Bytes: int64(len(data))}, func() error {
		created, err = f.bucket.PutIfAbsent(ctx, key, data)
		return err
	})
	return created && err == nil, err
}

// Get implements Bucket.
func (f *Faulty) Get(ctx context.Context, key string, offset int64, dst []byte) (n int, err error) {
	call := Call{Operation: OpGet, Key: key, Offset: offset, Bytes: int64(len(dst))}
	fault := f.decide(&call)
	switch fault.kind {
	case faultNone:
		return f.bucket.Get(ctx, key, offset, dst)
	case faultStall, faultDelay:
		if err := fault.wait(ctx); err != nil {
			return 0, localFailure(OpGet, "faulty", key, nil, err)
		}
		return f.bucket.Get(ctx, key, offset, dst)
	case faultCut:
		n, err = f.bucket.Get(ctx, key, offset, dst[:min(fault.bytes, len(dst))])
		if err != nil || n == len(dst) {
			return n, err
		}
	}
	return n, f.failure(call, fault)
}

// Stat implements Bucket.
func (f *Faulty) Stat(ctx context.Context, key string) (info ObjectInfo, err error) {
	err = f.run(ctx, Call{Operation: OpStat, Key: key}, func() error {
		info, err = f.bucket.Stat(ctx, key)
		return err
	})
	return info, err
}

// List implements Bucket. A listing whose answer is lost has made its visits.
func (f *Faulty) List(ctx context.Context, prefix, startAfter string, visit func(ObjectInfo) error) error {
	return f.run(ctx, Call{Operation: OpList, Key: prefix}, func() error {
		return f.bucket.List(ctx, prefix, startAfter, visit)
	})
}

// Delete implements Bucket.
func (f *Faulty) Delete(ctx context.Context, keys ...string) error {
	call := Call{Operation: OpDelete}
	if len(keys) > 0 {
		call.Key = keys[0]
	}
	return f.run(ctx, call, func() error { return f.bucket.Delete(ctx, keys...) })
}

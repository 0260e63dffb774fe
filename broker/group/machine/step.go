package machine

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/coordinator"
)

// Waiter stands for a request to which an answer is owed. The coordinator draws it for each request; a machine keeps it
// for as long as it likes and names it in exactly one Reply. Waiters are never 0. When the coordinator loses the group
// (its partition moves, a write fails) it answers all that are left itself and forgets the machine.
type Waiter uint64

// Reply is the answer to the request of a waiter.
type Reply struct {
	Waiter   Waiter
	Response kmsg.Response
}

// Client says from where a request came.
type Client struct {
	ID   string // client.id of the request's header
	Host string // the peer's address, as Kafka writes it: "/127.0.0.1"
}

// Rebalance is why the members of a group have to join anew: for the log, as Kafka tells it (KIP-800).
type Rebalance struct {
	Member string // to which it has happened; empty if to none
	Cause  string
	Reason string // what the member's client says of it; empty if nothing
}

// Step is what an event leads to. The coordinator carries it out in this order:
//
//   - Records are appended as one batch. If that fails, nothing is appended, Durable is called with the error, Appended
//     and Successor are ignored, and the waiters of Replies are answered with the error.
//   - Appended is called, then Successor takes the machine's place.
//   - Once the records are below the high watermark Durable is called with nil, and its step carried out; then
//     Replies go out. Without records both happen at once.
//
// Everything is called with the lock of the group's shard held, so with no other event of the group under way; between
// Appended and Durable other events may come.
type Step struct {
	Records []coordinator.Record
	// Appended changes the machine's state to what the records say, for a machine that does not change it before they are
	// appended. May be nil.
	Appended func()
	// Durable tells the outcome of the records. A machine that has lost its shard meanwhile is not told. May be nil.
	Durable func(now time.Time, err error) Step
	Replies []Reply
	// Rebalance, if not nil, says that members have to join anew from now on, and why.
	Rebalance *Rebalance
	// Successor, if not nil, replaces the machine: a group that goes over to the other protocol.
	Successor Group
}

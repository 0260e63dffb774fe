package wire

import (
	"context"
	"net"
	"sync/atomic"
	"time"
)

// Request is one request of a client: its header, parsed, and its body, not yet looked at.
type Request struct {
	Key           int16
	Version       int16
	CorrelationID int32
	ClientID      string // empty when the client sent none
	// Body is what follows the header. It aliases the frame and is valid until the handler has returned; a handler that
	// needs it longer (it should not) retains Frame.
	Body []byte
	// Frame holds the bytes behind Body; nil in tests that make a request by hand.
	Frame *Buffer
	// UnsupportedVersion is set for an ApiVersions request of a version above ours and for nothing else. Its header
	// cannot be trusted past the correlation id, so Body and ClientID are empty. The handler must answer a body of
	// version 0 with UNSUPPORTED_VERSION and exactly one entry, the range of ApiVersions, so that the client asks again.
	UnsupportedVersion bool
	Conn               *Conn
	ReceivedAt         time.Time
}

// Conn is what handlers may know about the connection a request came on.
type Conn struct {
	ID       uint64
	Listener string // name of the listener, as in `listeners`
	Local    net.Addr
	Remote   net.Addr
	// Context is done when the connection closes. Whatever waits for the sake of this connection ends with it.
	Context context.Context
	// Draining is closed when the server begins to stop: a long poll answers at once with what it has.
	Draining <-chan struct{}

	software atomic.Pointer[Software]
}

// Software is what a client said about itself in ApiVersions v3 and later (KIP-511).
type Software struct{ Name, Version string }

// SetSoftware remembers what the client said about itself.
func (c *Conn) SetSoftware(software Software) { c.software.Store(&software) }

// Software returns what the client said about itself, or empty strings.
func (c *Conn) Software() Software {
	if known := c.software.Load(); known != nil {
		return *known
	}
	return Software{}
}

// Reply is what a handler returns: an answer, or something to wait for that leads to an answer. Replies are written in
// the order of their requests. The zero value with a Response is the common case.
type Reply struct {
	// Response is the answer, unless Finish makes it.
	Response *Response
	// Wait delays the answer until it is closed; nil means the answer is ready.
	Wait <-chan struct{}
	// Finish makes the answer. The connection's writer calls it once Wait is closed. It may block for a moment, and must
	// end when Conn.Context is done.
	Finish func() *Response
	// Cancel is called instead of Finish when the connection ends before the answer could be made: it gives back what
	// was reserved. Of Finish and Cancel exactly one is called, once. May be nil.
	Cancel func()
	// Close, if not nil, closes the connection once all earlier replies, and this one's Response if there is one, are
	// written. It says why.
	Close error
	// None means that the client expects no answer (acks=0): nothing is written, and a Response is only counted.
	None bool
}

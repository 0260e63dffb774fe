package network

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestMemory runs in bubbles: fake time moves only while everything is durably blocked, so a wait that is not would
// hang these tests or fail them as deadlocked.
func TestMemory(t *testing.T) {
	for name, run := range map[string]func(t *testing.T, m *Memory){
		"the echo server works in a bubble":                         func(t *testing.T, m *Memory) { echo(t, m) },
		"a read ends at its deadline":                               readDeadline,
		"a write that nobody reads ends at its deadline":            writeDeadline,
		"a deadline can be moved while somebody waits":              movedDeadline,
		"a close wakes its own readers and writers and the peer's":  closeWakes,
		"a reset wakes both ends":                                   disconnects,
		"a partition holds everything back until it is healed":      partitionHolds,
		"a partition hides a close":                                 partitionHidesClose,
		"a partitioned dial waits until healed or given up":         partitionedDial,
		"a partition is between two hosts only":                     partitionIsBetweenTwo,
		"a delay delays every byte and keeps the order":             delays,
		"a delay is paid twice by a dial":                           delayedDial,
		"a shorter delay does not overtake a longer one":            delayDoesNotOvertake,
		"hosts listen under their own names":                        hostsHaveNames,
		"a closed listener resets who was not accepted":             listenerCloseResets,
		"an accept waits for a connection":                          acceptWaits,
		"a finished connection is forgotten":                        forgets,
		"writing to a closed peer is a broken pipe":                 brokenPipe,
		"what was written before a close arrives":                   closeDelivers,
		"a connection knows both its addresses":                     addresses,
		"the backlog is bounded":                                    backlogBound,
		"the bytes on their way are bounded, partitioned or not":    bufferBound,
		"half a close arrives with the delay and after the content": delayedHalfClose,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { run(t, NewMemory()) })
		})
	}
}

func elapsed(t *testing.T, since time.Time, want time.Duration) {
	t.Helper()
	if got := time.Since(since); got != want {
		t.Fatalf("%v passed, want %v", got, want)
	}
}

func wantRead(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("read %q, %v; want %q", got[:n], err, want)
	}
}

func wantNothing(t *testing.T, c net.Conn) {
	t.Helper()
	must(t, c.SetReadDeadline(time.Now().Add(time.Millisecond)))
	n, err := c.Read(make([]byte, 1))
	if n > 0 {
		t.Fatal("something has arrived")
	}
	wantErr(t, err, os.ErrDeadlineExceeded)
	must(t, c.SetReadDeadline(time.Time{}))
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	n, err := c.Write([]byte(text))
	must(t, err)
	if n != len(text) {
		t.Fatalf("wrote %d of %d", n, len(text))
	}
}

func readDeadline(t *testing.T, m *Memory) {
	near, far := connect(t, m, m, ":0")
	start := time.Now()
	must(t, near.SetDeadline(start.Add(time.Hour)))
	_, err := near.Read(make([]byte, 1))
	wantErr(t, err, os.ErrDeadlineExceeded)
	if netErr, ok := err.(net.Error); !ok || !netErr.Timeout() {
		t.Fatalf("%v is no timeout", err)
	}
	elapsed(t, start, time.Hour)
	send(t, far, "x")
	_, err = near.Read(make([]byte, 1)) // even though there is something to read, as on TCP
	wantErr(t, err, os.ErrDeadlineExceeded)
	must(t, near.SetReadDeadline(time.Time{}))
	wantRead(t, near, "x")
	_, err = near.Write([]byte("x"))
	wantErr(t, err, os.ErrDeadlineExceeded)
}

func writeDeadline(t *testing.T, m *Memory) {
	near, far := connect(t, m, m, ":0")
	start := time.Now()
	must(t, near.SetWriteDeadline(start.Add(time.Minute)))
	n, err := near.Write(make([]byte, bufferBytes+1))
	wantErr(t, err, os.ErrDeadlineExceeded)
	elapsed(t, start, time.Minute)
	if n != bufferBytes {
		t.Fatalf("wrote %d", n)
	}
	must(t, near.Close())
	got, err := io.ReadAll(far)
	must(t, err)
	if len(got) != bufferBytes {
		t.Fatalf("read %d", len(got))
	}
}

func movedDeadline(t *testing.T, m *Memory) {
	near, _ := connect(t, m, m, ":0")
	start := time.Now()
	must(t, near.SetReadDeadline(start.Add(time.Hour)))
	done := make(chan error)
	read := func() {
		_, err := near.Read(make([]byte, 1))
		done <- err
	}
	go read()
	synctest.Wait()
	must(t, near.SetReadDeadline(start.Add(time.Minute)))
	wantErr(t, <-done, os.ErrDeadlineExceeded)
	elapsed(t, start, time.Minute)
	must(t, near.SetReadDeadline(start.Add(2*time.Minute)))
	go read()
	synctest.Wait()
	must(t, near.SetReadDeadline(start.Add(3*time.Minute)))
	wantErr(t, <-done, os.ErrDeadlineExceeded)
	elapsed(t, start, 3*time.Minute)
	must(t, near.SetReadDeadline(time.Time{}))
	go read()
	synctest.Wait()
	must(t, near.SetReadDeadline(time.Unix(1, 0))) // the past: how servers interrupt a read
	wantErr(t, <-done, os.ErrDeadlineExceeded)
	elapsed(t, start, 3*time.Minute)
}

func closeWakes(t *testing.T, m *Memory) {
	near, far := connect(t, m, m, ":0")
	type result struct {
		who string
		err error
	}
	results := make(chan result, 4)
	do := func(who string, op func() error) {
		go func() { results <- result{who, op()} }()
	}
	fill := func(c net.Conn) func() error {
		return func() error {
			_, err := c.Write(make([]byte, 2*bufferBytes))
			return err
		}
	}
	do("near write", fill(near))
	do("far write", fill(far))
	synctest.Wait()
	must(t, near.Close())
	want := map[string]error{"near write": net.ErrClosed, "far write": syscall.EPIPE}
	for range 2 {
		r := <-results
		wantErr(t, r.err, want[r.who])
	}

	near, far = connect(t, m, m, ":0")
	read := func(c net.Conn) func() error {
		return func() error {
			_, err := c.Read(make([]byte, 1))
			return err
		}
	}
	do("near read", read(near))
	do("far read", read(far))
	synctest.Wait()
	must(t, near.Close())
	want = map[string]error{"near read": net.ErrClosed, "far read": io.EOF}
	for range 2 {
		r := <-results
		wantErr(t, r.err, want[r.who])
	}
	must(t, far.Close())
}

func disconnects(t *testing.T, m *Memory) {
	near, far := connect(t, m.Host("b"), m.Host("a"), ":0")
	send(t, near, "lost")
	results := make(chan error)
	go func() {
		_, err := near.Read(make([]byte, 1))
		results <- err
	}()
	synctest.Wait()
	m.Disconnect("a", "c")
	m.Disconnect("b", "a")
	reset := <-results
	wantErr(t, reset, syscall.ECONNRESET)
	if system := (*os.SyscallError)(nil); !errors.As(reset, &system) {
		t.Errorf("%#v is not an error of the operating system, as which clients know what to try again", reset)
	}
	_, err := far.Read(make([]byte, 1))
	wantErr(t, err, syscall.ECONNRESET)
	_, err = far.Write([]byte("x"))
	wantErr(t, err, syscall.ECONNRESET)
}

func partitionHolds(t *testing.T, m *Memory) {
	near, far := connect(t, m.Host("b"), m.Host("a"), ":0")
	send(t, near, "before ")
	m.Partition("a", "b")
	send(t, near, "during ")
	send(t, far, "back")
	wantRead(t, far, "before ") // it had arrived
	wantNothing(t, far)
	wantNothing(t, near)
	m.Heal("b", "a")
	send(t, near, "after")
	wantRead(t, far, "during after")
	wantRead(t, near, "back")
}

func partitionHidesClose(t *testing.T, m *Memory) {
	near, far := connect(t, m.Host("b"), m.Host("a"), ":0")
	m.Partition("a", "b")
	send(t, near, "last words")
	must(t, near.Close())
	wantNothing(t, far)
	send(t, far, "into the void")
	m.Heal("a", "b")
	wantRead(t, far, "last words")
	_, err := far.Read(make([]byte, 1))
	wantErr(t, err, io.EOF)
	_, err = far.Write([]byte("x"))
	wantErr(t, err, syscall.EPIPE)
}

func partitionedDial(t *testing.T, m *Memory) {
	a, b := m.Host("a"), m.Host("b")
	l, err := b.Listen(t.Context(), ":9092")
	must(t, err)
	defer l.Close()
	m.Partition("a", "b")
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = a.Dial(ctx, "b:9092")
	wantErr(t, err, context.DeadlineExceeded)
	elapsed(t, start, time.Minute)
	time.AfterFunc(time.Minute, func() { m.Heal("a", "b") })
	c, err := a.Dial(t.Context(), "b:9092")
	must(t, err)
	elapsed(t, start, 2*time.Minute)
	must(t, c.Close())
}

func partitionIsBetweenTwo(t *testing.T, m *Memory) {
	ab, ba := connect(t, m.Host("b"), m.Host("a"), ":0")
	ac, ca := connect(t, m.Host("c"), m.Host("a"), ":0")
	m.Partition("a", "b")
	send(t, ac, "to c")
	wantRead(t, ca, "to c")
	send(t, ab, "to b")
	wantNothing(t, ba)
}

func delays(t *testing.T, m *Memory) {
	m.Delay("a", "b", time.Second)
	near, far := connect(t, m.Host("b"), m.Host("a"), ":0")
	start := time.Now()
	send(t, near, "one ")
	time.Sleep(300 * time.Millisecond)
	send(t, near, "two")
	wantRead(t, far, "one ")
	elapsed(t, start, time.Second)
	wantRead(t, far, "two")
	elapsed(t, start, 1300*time.Millisecond)
	send(t, far, "back")
	must(t, far.Close())
	wantRead(t, near, "back")
	elapsed(t, start, 2300*time.Millisecond)
	_, err := near.Read(make([]byte, 1))
	wantErr(t, err, io.EOF)
	elapsed(t, start, 2300*time.Millisecond)
}

func delayedDial(t *testing.T, m *Memory) {
	m.Delay("a", "b", time.Second)
	start := time.Now()
	connect(t, m.Host("b"), m.Host("a"), ":0")
	elapsed(t, start, 2*time.Second)
}

func delayDoesNotOvertake(t *testing.T, m *Memory) {
	m.Delay("a", "b", time.Hour)
	near, far := connect(t, m.Host("b"), m.Host("a"), ":0")
	start := time.Now()
	send(t, near, "slow ")
	m.Delay("a", "b", 0)
	send(t, near, "fast")
	wantRead(t, far, "slow fast")
	elapsed(t, start, time.Hour)
}

func delayedHalfClose(t *testing.T, m *Memory) {
	m.Delay("a", "b", time.Second)
	near, far := connect(t, m.Host("b"), m.Host("a"), ":0")
	start := time.Now()
	send(t, near, "content")
	must(t, near.(*conn).CloseWrite())
	must(t, near.(*conn).CloseWrite())
	_, err := near.Write([]byte("x"))
	wantErr(t, err, syscall.EPIPE)
	got, err := io.ReadAll(far)
	must(t, err)
	if string(got) != "content" {
		t.Fatalf("read %q", got)
	}
	elapsed(t, start, time.Second)
	send(t, far, "answer")
	wantRead(t, near, "answer")
	must(t, near.Close())
	wantErr(t, near.(*conn).CloseWrite(), net.ErrClosed)
}

func hostsHaveNames(t *testing.T, m *Memory) {
	a, b := m.Host("a"), m.Host("b")
	la, err := a.Listen(t.Context(), "0.0.0.0:9092")
	must(t, err)
	defer la.Close()
	lb, err := b.Listen(t.Context(), "b:9092")
	must(t, err)
	defer lb.Close()
	if la.Addr().String() != "a:9092" || lb.Addr().String() != "b:9092" || lb.Addr().Network() != "memory" {
		t.Fatalf("listening on %v and %v", la.Addr(), lb.Addr())
	}
	for address, want := range map[string]net.Listener{"127.0.0.1:9092": la, "a:9092": la, "b:9092": lb} {
		near, err := a.Dial(t.Context(), address)
		must(t, err)
		far, err := want.Accept()
		must(t, err)
		if near.RemoteAddr() != want.Addr() {
			t.Errorf("%s led to %v", address, near.RemoteAddr())
		}
		must(t, near.Close())
		must(t, far.Close())
	}
	_, err = a.Listen(t.Context(), "b:1")
	wantErr(t, err, syscall.EADDRNOTAVAIL)
	_, err = a.Listen(t.Context(), "a:9092")
	wantErr(t, err, syscall.EADDRINUSE)
	_, err = m.Dial(t.Context(), "localhost:9092")
	wantErr(t, err, syscall.ECONNREFUSED)
	if !strings.Contains(err.Error(), "localhost:9092") {
		t.Errorf("%v does not say where", err)
	}
}

func listenerCloseResets(t *testing.T, m *Memory) {
	l, err := m.Listen(t.Context(), ":9092")
	must(t, err)
	c, err := m.Dial(t.Context(), ":9092")
	must(t, err)
	must(t, l.Close())
	wantErr(t, l.Close(), net.ErrClosed)
	_, err = c.Read(make([]byte, 1))
	wantErr(t, err, syscall.ECONNRESET)
	must(t, c.Close())
	again, err := m.Listen(t.Context(), ":9092")
	must(t, err)
	must(t, again.Close())
	if len(m.pipes) != 0 {
		t.Error("a refused connection is remembered")
	}
}

func acceptWaits(t *testing.T, m *Memory) {
	l, err := m.Listen(t.Context(), ":9092")
	must(t, err)
	time.AfterFunc(time.Minute, func() { _, _ = m.Dial(t.Context(), ":9092") })
	time.AfterFunc(time.Hour, func() { _ = l.Close() })
	start := time.Now()
	_, err = l.Accept()
	must(t, err)
	elapsed(t, start, time.Minute)
	_, err = l.Accept()
	wantErr(t, err, net.ErrClosed)
	elapsed(t, start, time.Hour)
}

func forgets(t *testing.T, m *Memory) {
	near, far := connect(t, m, m, ":0")
	must(t, near.Close())
	if len(m.pipes) != 1 {
		t.Fatal("forgotten while one end is open")
	}
	must(t, far.Close())
	if len(m.pipes) != 0 || len(m.listeners) != 0 {
		t.Fatalf("%d connections and %d listeners remembered", len(m.pipes), len(m.listeners))
	}
}

func brokenPipe(t *testing.T, m *Memory) {
	near, far := connect(t, m, m, ":0")
	must(t, near.Close())
	_, err := far.Write([]byte("x"))
	wantErr(t, err, syscall.EPIPE)
	wantErr(t, near.SetDeadline(time.Now()), net.ErrClosed)
}

func closeDelivers(t *testing.T, m *Memory) {
	near, far := connect(t, m, m, ":0")
	send(t, near, "last words")
	must(t, near.Close())
	got, err := io.ReadAll(far)
	must(t, err)
	if string(got) != "last words" {
		t.Fatalf("read %q", got)
	}
}

func addresses(t *testing.T, m *Memory) {
	near, far := connect(t, m.Host("b"), m.Host("a"), ":9092")
	if near.RemoteAddr().String() != "b:9092" || far.LocalAddr() != near.RemoteAddr() ||
		near.LocalAddr() != far.RemoteAddr() || !strings.HasPrefix(far.RemoteAddr().String(), "a:") {
		t.Fatalf("%v-%v, %v-%v", near.LocalAddr(), near.RemoteAddr(), far.LocalAddr(), far.RemoteAddr())
	}
}

func backlogBound(t *testing.T, m *Memory) {
	l, err := m.Listen(t.Context(), ":9092")
	must(t, err)
	for range maxBacklog {
		_, err := m.Dial(t.Context(), ":9092")
		must(t, err)
	}
	_, err = m.Dial(t.Context(), ":9092")
	wantErr(t, err, syscall.ECONNREFUSED)
	_, err = l.Accept()
	must(t, err)
	_, err = m.Dial(t.Context(), ":9092")
	must(t, err)
	must(t, l.Close())
}

func bufferBound(t *testing.T, m *Memory) {
	near, far := connect(t, m.Host("b"), m.Host("a"), ":0")
	m.Partition("a", "b")
	data := bytes.Repeat([]byte("0123456789abcdef"), bufferBytes/8) // twice the buffer
	done := make(chan error)
	go func() {
		_, err := near.Write(data)
		done <- err
	}()
	synctest.Wait()
	stream := &near.(*conn).pipe.streams[1]
	if stream.space() != 0 || len(stream.buffer) != bufferBytes {
		t.Fatalf("%d bytes buffered", len(stream.buffer))
	}
	m.Heal("a", "b")
	got := make([]byte, len(data))
	_, err := io.ReadFull(far, got)
	must(t, err)
	must(t, <-done)
	if !bytes.Equal(got, data) {
		t.Fatal("read something else")
	}
}

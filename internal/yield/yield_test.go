package yield

import (
	"io"
	"net"
	"runtime"
	"testing"
	"time"
)

// With one processor, whoever reads from the network runs while a computation gives way twice: once to be woken, once
// to come to its turn.
func TestReadersOfTheNetworkComeToTheirTurn(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	read := make(chan error, 1)
	reading := make(chan struct{})
	go func() {
		close(reading)
		_, err := io.ReadFull(server, make([]byte, 1))
		read <- err
	}()
	<-reading
	point, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer point.Close()
	point.Now() // the reader waits for the network now
	if _, err := client.Write([]byte{0}); err != nil {
		t.Fatal(err)
	}
	point.Now()
	point.Now()
	select {
	case err := <-read:
		if err != nil {
			t.Error(err)
		}
	default:
		t.Error("the reader has not run")
	}
}

func TestGivingWayIsRare(t *testing.T) {
	point, err := New()
	if err != nil {
		t.Fatal(err)
	}
	point.last = time.Now().Add(time.Hour)
	before := point.last
	point.Often()
	if !point.last.Equal(before) {
		t.Error("it gave way at once")
	}
	point.last = time.Now().Add(-time.Hour)
	before = point.last
	point.Often()
	if point.last.Equal(before) {
		t.Error("it did not give way after a long time")
	}
	point.Close()
	point.Now() // and does not wait
}

func BenchmarkNow(b *testing.B) {
	point, err := New()
	if err != nil {
		b.Fatal(err)
	}
	defer point.Close()
	for b.Loop() {
		point.Now()
	}
}

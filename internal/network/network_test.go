package network

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

// connect makes a connection of which both ends are known.
func connect(t testing.TB, on, from Network, address string) (near, far net.Conn) {
	t.Helper()
	l, err := on.Listen(context.Background(), address)
	must(t, err)
	near, err = from.Dial(context.Background(), l.Addr().String())
	must(t, err)
	far, err = l.Accept()
	must(t, err)
	must(t, l.Close())
	t.Cleanup(func() {
		_ = near.Close()
		_ = far.Close()
	})
	return near, far
}

// TestNetworks holds what both networks must do alike.
func TestNetworks(t *testing.T) {
	for name, network := range map[string]Network{"tcp": TCP(), "memory": NewMemory()} {
		t.Run(name, func(t *testing.T) {
			t.Run("an echo server gives back what many clients send", func(t *testing.T) { echo(t, network) })
			t.Run("a half-closed connection still carries the other way", func(t *testing.T) {
				near, far := connect(t, network, network, "127.0.0.1:0")
				_, err := near.Write([]byte("question"))
				must(t, err)
				must(t, near.(interface{ CloseWrite() error }).CloseWrite())
				got, err := io.ReadAll(far)
				must(t, err)
				_, err = far.Write(append(got, " answered"...))
				must(t, err)
				must(t, far.Close())
				if got, err := io.ReadAll(near); err != nil || string(got) != "question answered" {
					t.Fatalf("read %q, %v", got, err)
				}
				if _, err := near.Write([]byte("more")); err == nil {
					t.Fatal("written after the half close")
				}
			})
			t.Run("what is closed says net.ErrClosed", func(t *testing.T) {
				near, far := connect(t, network, network, "127.0.0.1:0")
				must(t, near.Close())
				_, err := near.Read(make([]byte, 1))
				wantErr(t, err, net.ErrClosed)
				_, err = near.Write([]byte("x"))
				wantErr(t, err, net.ErrClosed)
				wantErr(t, near.Close(), net.ErrClosed)
				_, err = far.Read(make([]byte, 1))
				wantErr(t, err, io.EOF)
				l, err := network.Listen(context.Background(), "127.0.0.1:0")
				must(t, err)
				must(t, l.Close())
				_, err = l.Accept()
				wantErr(t, err, net.ErrClosed)
				if _, err := network.Dial(context.Background(), l.Addr().String()); err == nil {
					t.Fatal("dialled a closed listener")
				}
			})
			t.Run("a port has one listener, and an address must make sense", func(t *testing.T) {
				l, err := network.Listen(context.Background(), "127.0.0.1:0")
				must(t, err)
				defer l.Close()
				if _, err := network.Listen(context.Background(), l.Addr().String()); err == nil {
					t.Error("two listeners")
				}
				for _, address := range []string{"127.0.0.1", "127.0.0.1:70000", "127.0.0.1:-1"} {
					if _, err := network.Dial(context.Background(), address); err == nil {
						t.Errorf("dialled %q", address)
					}
					if _, err := network.Listen(context.Background(), address); err == nil {
						t.Errorf("listening on %q", address)
					}
				}
			})
			t.Run("a context that is over dials nothing", func(t *testing.T) {
				ctx, cancel := context.WithCancel(context.Background())
				cancel()
				if _, err := network.Dial(ctx, "127.0.0.1:1"); err == nil {
					t.Fatal("dialled")
				}
			})
		})
	}
}

func echo(t *testing.T, network Network) {
	l, err := network.Listen(context.Background(), "127.0.0.1:0")
	must(t, err)
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	const clients = 10
	results := make(chan error, clients)
	for i := range clients {
		// Beyond the buffers, so that writes meet back-pressure.
		data := bytes.Repeat([]byte{byte(i), 1, 2, 3, 5, 7, 11}, bufferBytes/2)
		go func() { results <- roundTrip(network, l.Addr().String(), data) }()
	}
	for range clients {
		must(t, <-results)
	}
	must(t, l.Close())
	<-served
}

func roundTrip(network Network, address string, data []byte) error {
	c, err := network.Dial(context.Background(), address)
	if err != nil {
		return err
	}
	defer c.Close()
	wrote := make(chan error, 1)
	go func() {
		_, err := c.Write(data)
		wrote <- errors.Join(err, c.(interface{ CloseWrite() error }).CloseWrite())
	}()
	got, err := io.ReadAll(c)
	if err == nil && !bytes.Equal(got, data) {
		err = errors.New("the echo differs")
	}
	return errors.Join(err, <-wrote)
}

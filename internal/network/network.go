package network

import (
	"context"
	"net"
)

// Network makes stream connections between addresses of the form host:port.
type Network interface {
	// Listen accepts connections on an address. Port 0 picks a free one, which the listener's Addr tells.
	Listen(ctx context.Context, address string) (net.Listener, error)
	// Dial connects to a listener. The context bounds the dialling, not the connection.
	Dial(ctx context.Context, address string) (net.Conn, error)
}

// TCP returns the operating system's network.
func TCP() Network { return tcp{} }

type tcp struct{}

func (tcp) Listen(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	return config.Listen(ctx, "tcp", address)
}

func (tcp) Dial(ctx context.Context, address string) (net.Conn, error) {
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", address)
}

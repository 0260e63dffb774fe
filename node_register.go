package firn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
)

// endpointOf is what clients of a listener are told. Where nothing is advertised the host stays empty: each client is
// told the address that it has reached.
func endpointOf(listener Listener, listening net.Addr) command.Endpoint {
	endpoint := command.Endpoint{Name: listener.Name, Protocol: plaintext}
	if advertised := listener.Advertised; advertised != nil {
		endpoint.Host, endpoint.Port = advertised.Host, advertised.Port
	} else if _, port, err := net.SplitHostPort(listening.String()); err == nil {
		number, _ := strconv.ParseInt(port, 10, 32)
		endpoint.Port = int32(number)
	}
	return endpoint
}

// endpoints are what clients of all listeners are told.
func (n *Node) endpoints(listening []net.Addr) []command.Endpoint {
	var endpoints []command.Endpoint
	for i, listener := range n.config.Listeners {
		endpoints = append(endpoints, endpointOf(listener, listening[i]))
	}
	return endpoints
}

// register makes the broker known, and keeps it so: a log directory that fails must not get new partitions.
func (n *Node) register(ctx context.Context, endpoints []command.Endpoint) error {
	registration := command.RegisterBroker{ID: n.config.NodeID, Incarnation: newID(), Listeners: endpoints}
	if n.config.Rack != "" {
		registration.Rack = &n.config.Rack
	}
	if err := n.registerAs(ctx, registration); err != nil {
		return err
	}
	n.run("registration", func(ctx context.Context) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-n.directoryFailed:
			}
			if err := n.registerAs(ctx, registration); err != nil && ctx.Err() == nil {
				return err
			}
		}
	})
	return nil
}

// registerAs registers the broker with the log directories that serve.
func (n *Node) registerAs(ctx context.Context, registration command.RegisterBroker) error {
	registration.Directories = usable(n.logs.Directories())
	if len(registration.Directories) == 0 {
		return errors.New("every log directory has failed")
	}
	if _, err := n.meta.Propose(ctx, registration); err != nil {
		return fmt.Errorf("register the broker: %w", err)
	}
	return nil
}

func usable(dirs []storage.DirectoryState) (ids []kafka.UUID) {
	for _, dir := range dirs {
		if dir.Err == nil {
			ids = append(ids, dir.ID)
		}
	}
	return ids
}

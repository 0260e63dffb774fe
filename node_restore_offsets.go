package firn

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/firnlog/firn/internal/network"
	"github.com/firnlog/firn/tiering/checkpoint"
)

// commitWorkers is how many groups commit at a time.
const commitWorkers = 16

// commitOffsets starts the restored node where nobody reaches it, commits what the groups had committed as any client
// would, and has it write its first checkpoint.
func (r *restoration) commitOffsets(ctx context.Context) (err error) {
	hidden := network.NewMemory()
	cfg, deps := r.store.config, r.dependencies()
	cfg.Listeners = []Listener{{Name: plaintext, Address: "localhost:9092"}}
	cfg.HTTPListener = "localhost:9644"
	deps.Network = hidden
	n := newNode(cfg, deps)
	n.restoring = true
	if err := n.start(ctx); err != nil {
		return fmt.Errorf("start the restored node: %w", err)
	}
	defer func() {
		if stopErr := n.Stop(context.WithoutCancel(ctx)); err == nil {
			err = stopErr
		}
	}()
	if len(r.plan.Groups) > 0 {
		client, err := kgo.NewClient(kgo.SeedBrokers(n.Addr()), kgo.ClientID("firn-restore"),
			kgo.Dialer(func(ctx context.Context, _, address string) (net.Conn, error) { return hidden.Dial(ctx, address) }))
		if err != nil {
			return err
		}
		defer client.Close()
		if err := r.commitGroups(ctx, kadm.NewClient(client)); err != nil {
			return err
		}
	}
	if err := n.checkpoints.Flush(ctx); err != nil {
		return fmt.Errorf("write the first checkpoint of the restored cluster: %w", err)
	}
	return nil
}

func (r *restoration) commitGroups(ctx context.Context, admin *kadm.Client) error {
	var mu sync.Mutex // guards r.notCommitted
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(commitWorkers)
	for _, one := range r.plan.Groups {
		if len(one.Offsets) == 0 {
			continue
		}
		group.Go(func() error {
			responses, err := admin.CommitOffsets(ctx, one.Name, offsetsOf(one))
			if err == nil {
				err = responses.Error()
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil { // such as a group that has members, of a node that was only added to
				mu.Lock()
				defer mu.Unlock()
				r.notCommitted = append(r.notCommitted, fmt.Sprintf("%s: %v", one.Name, err))
			}
			return nil
		})
	}
	return group.Wait()
}

func offsetsOf(group checkpoint.Group) kadm.Offsets {
	offsets := kadm.Offsets{}
	for _, offset := range group.Offsets {
		offsets.Add(kadm.Offset{
			Topic: offset.Topic, Partition: offset.Partition, At: offset.Offset,
			LeaderEpoch: int32(offset.LeaderEpoch), Metadata: offset.Metadata,
		})
	}
	return offsets
}

package firn

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
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
		if err := r.commitGroups(ctx, n.Addr(), hidden); err != nil {
			return err
		}
	}
	if err := n.checkpoints.Flush(ctx); err != nil {
		return fmt.Errorf("write the first checkpoint of the restored cluster: %w", err)
	}
	return nil
}

// expiringCommit is the last version of OffsetCommit in which a client says for how long an offset is kept.
const expiringCommit = 4

func (r *restoration) commitGroups(ctx context.Context, address string, hidden *network.Memory) error {
	old := kversion.Stable()
	old.SetMaxKeyVersion(kmsg.OffsetCommit.Int16(), expiringCommit)
	clients := [2]*kgo.Client{}
	for i, options := range [len(clients)][]kgo.Opt{{}, {kgo.MaxVersions(old)}} {
		options = append(options, kgo.SeedBrokers(address), kgo.ClientID("firn-restore"),
			kgo.Dialer(func(ctx context.Context, _, address string) (net.Conn, error) { return hidden.Dial(ctx, address) }))
		client, err := kgo.NewClient(options...)
		if err != nil {
			return err
		}
		defer client.Close()
		clients[i] = client
	}
	admin, expiring := kadm.NewClient(clients[0]), clients[1]
	var mu sync.Mutex // guards r.notCommitted
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(commitWorkers)
	for _, one := range r.plan.Groups {
		if len(one.Offsets) == 0 {
			continue
		}
		group.Go(func() error {
			err := commitGroup(ctx, admin, expiring, one)
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

// commitGroup commits what a group had committed. An offset that had a time of its own keeps it.
func commitGroup(ctx context.Context, admin *kadm.Client, expiring *kgo.Client, group checkpoint.Group) error {
	lasting, byExpiry := kadm.Offsets{}, map[int64][]checkpoint.Offset{}
	for _, offset := range group.Offsets {
		if offset.ExpiresAt != 0 {
			byExpiry[offset.ExpiresAt] = append(byExpiry[offset.ExpiresAt], offset)
			continue
		}
		lasting.Add(kadm.Offset{
			Topic: offset.Topic, Partition: offset.Partition, At: offset.Offset,
			LeaderEpoch: int32(offset.LeaderEpoch), Metadata: offset.Metadata,
		})
	}
	for _, expiry := range slices.Sorted(maps.Keys(byExpiry)) {
		if err := commitUntil(ctx, expiring, group.Name, byExpiry[expiry]); err != nil {
			return err
		}
	}
	if len(lasting) == 0 {
		return nil
	}
	responses, err := admin.CommitOffsets(ctx, group.Name, lasting)
	if err == nil {
		err = responses.Error()
	}
	return err
}

// commitUntil commits offsets that expire at the same time.
func commitUntil(ctx context.Context, client *kgo.Client, group string, offsets []checkpoint.Offset) error {
	request := kmsg.NewPtrOffsetCommitRequest()
	request.Group, request.Generation = group, -1
	request.RetentionTimeMillis = max(offsets[0].ExpiresAt-time.Now().UnixMilli(), 1)
	for _, offset := range offsets { // by topic
		partition := kmsg.NewOffsetCommitRequestTopicPartition()
		partition.Partition, partition.Offset, partition.Metadata = offset.Partition, offset.Offset, &offset.Metadata
		if n := len(request.Topics); n == 0 || request.Topics[n-1].Topic != offset.Topic {
			topic := kmsg.NewOffsetCommitRequestTopic()
			topic.Topic = offset.Topic
			request.Topics = append(request.Topics, topic)
		}
		topic := &request.Topics[len(request.Topics)-1]
		topic.Partitions = append(topic.Partitions, partition)
	}
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	for _, topic := range response.Topics {
		for _, partition := range topic.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return fmt.Errorf("%s-%d: %w", topic.Topic, partition.Partition, err)
			}
		}
	}
	return nil
}

package gc

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
)

// collectTopics deletes everything of the deleted topics whose grace is over, and tells when the next one's is.
func (c *Collector) collectTopics(ctx context.Context, r rule) (nextMs int64, err error) {
	topics, err := c.options.Source.DeletedTopics()
	if err != nil {
		return 0, err
	}
	nextMs = never
	for _, topic := range topics {
		if topic.Kept {
			continue
		}
		// Until the later of the two has passed, a reader may hold an object and an upload may still land.
		quiet := topic.ElapsedMs + max(c.options.Grace, c.options.UploadDeadline).Milliseconds()
		if due := topic.ElapsedMs + c.options.Grace.Milliseconds(); due > r.nowMs {
			nextMs = min(nextMs, due)
			continue
		}
		if topic.Index > r.settled || r.topicPinned(topic.ID) {
			continue // a checkpoint or the end of a pin lets it go, not time
		}
		if err := c.deleteTopic(ctx, topic); err != nil {
			return 0, err
		}
		if quiet > r.nowMs {
			nextMs = min(nextMs, quiet)
			continue
		}
		if err := c.propose(ctx, command.TopicCollected{TopicID: topic.ID}); err != nil {
			return 0, err
		}
		c.options.Logger.Info("a deleted topic has nothing in the bucket any more",
			"topic", topic.Name, "id", topic.ID.String())
	}
	return nextMs, nil
}

// deleteTopic deletes the topic's objects, a listing's worth at a time, until a listing finds none.
func (c *Collector) deleteTopic(ctx context.Context, topic command.DeletedTopic) error {
	clusters := topic.Origins
	if len(clusters) == 0 {
		clusters = []kafka.UUID{c.options.ClusterID}
	}
	for _, cluster := range clusters {
		if err := c.deleteFolder(ctx, segment.TopicPrefix(cluster, topic.ID)); err != nil {
			return fmt.Errorf("delete what is left of topic %s: %w", topic.Name, err)
		}
	}
	return nil
}

func (c *Collector) deleteFolder(ctx context.Context, folder string) error {
	for {
		var keys []string
		err := c.options.Bucket.List(ctx, folder, "",
			func(object objectstore.ObjectInfo) error {
				keys = append(keys, object.Key)
				if len(keys) == maxBatch {
					return fs.SkipAll
				}
				return nil
			})
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			return nil
		}
		if err := c.delete(ctx, keys); err != nil {
			return err
		}
	}
}

package gc

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
)

// collectTopics deletes everything of the deleted topics whose grace is over, and tells when the next one's is.
func (c *Collector) collectTopics(ctx context.Context, now int64) (nextMs int64, err error) {
	topics, err := c.options.Source.DeletedTopics()
	if err != nil {
		return 0, err
	}
	nextMs = never
	for _, topic := range topics {
		// Until the later of the two has passed, a reader may hold an object and an upload may still land.
		quiet := topic.ElapsedMs + max(c.options.Grace, c.options.UploadDeadline).Milliseconds()
		if due := topic.ElapsedMs + c.options.Grace.Milliseconds(); due > now {
			nextMs = min(nextMs, due)
			continue
		}
		if err := c.deleteTopic(ctx, topic); err != nil {
			return 0, err
		}
		if quiet > now {
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
	for {
		var keys []string
		err := c.options.Bucket.List(ctx, segment.TopicPrefix(c.options.ClusterID, topic.ID), "",
			func(object objectstore.ObjectInfo) error {
				keys = append(keys, object.Key)
				if len(keys) == maxBatch {
					return fs.SkipAll
				}
				return nil
			})
		if err != nil {
			return fmt.Errorf("list what is left of topic %s: %w", topic.Name, err)
		}
		if len(keys) == 0 {
			return nil
		}
		if err := c.delete(ctx, keys); err != nil {
			return err
		}
	}
}

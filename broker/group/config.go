package group

import (
	"time"

	"github.com/firnlog/firn/broker/group/classic"
	"github.com/firnlog/firn/broker/group/consumer"
)

// Config are the settings of the groups of a broker.
type Config struct {
	Classic  classic.Settings
	Consumer consumer.Settings

	CommitTimeout          time.Duration // offsets.commit.timeout.ms: how long an answer may wait for records
	MaxMetadataLength      int           // offset.metadata.max.bytes: of a commit; counted as Java does, in UTF-16 units
	OffsetsRetention       time.Duration // offsets.retention.minutes: from when on a group is empty, else from a commit
	RetentionCheckInterval time.Duration // offsets.retention.check.interval.ms
}

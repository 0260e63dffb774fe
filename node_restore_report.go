package firn

import (
	"time"

	"github.com/firnlog/firn/tiering/restore"
)

// RestoreReport is what was restored, or would be.
type RestoreReport struct {
	DryRun         bool            `json:"dry_run"`
	From           string          `json:"from_cluster"` // hexadecimal, as in the keys of the bucket
	Cluster        string          `json:"cluster"`      // that has come to be; "" if none has
	CheckpointAt   string          `json:"checkpoint_at"`
	Checkpoint     uint64          `json:"checkpoint_index"`
	Damaged        []string        `json:"damaged_checkpoints"` // newer ones that cannot be read
	Topics         []RestoredTopic `json:"topics"`
	Groups         int             `json:"groups"`
	Offsets        int             `json:"offsets"`
	Clamps         []RestoreClamp  `json:"clamps"`
	NotCommitted   []string        `json:"not_committed"` // groups whose offsets were refused, with the reason
	NextProducerID int64           `json:"next_producer_id"`
	Seconds        float64         `json:"seconds"`
}

// RestoredTopic is a topic that comes back; one that is not tiered comes back empty, with its settings.
type RestoredTopic struct {
	Name       string              `json:"topic"`
	ID         string              `json:"topic_id"`
	Tiered     bool                `json:"tiered"`
	Partitions []RestoredPartition `json:"partitions"`
}

// RestoredPartition is a partition that comes back with the offsets from Start up to, and without, End.
type RestoredPartition struct {
	Partition     int32    `json:"partition"`
	Start         int64    `json:"start_offset"`
	End           int64    `json:"end_offset"`
	CheckpointEnd int64    `json:"checkpoint_end_offset"` // what lies behind was found by listing
	Segments      int64    `json:"segments"`
	Found         int      `json:"found_segments"`
	Bytes         int64    `json:"bytes"`
	LeaderEpoch   int32    `json:"leader_epoch"`
	Damaged       []string `json:"damaged_objects"`
}

// RestoreClamp is a committed offset that is moved back, since what comes back ends before it.
type RestoreClamp struct {
	Group     string `json:"group"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed_offset"`
	Restored  int64  `json:"restored_offset"`
}

func newRestoreReport(plan *restore.Plan) *RestoreReport {
	report := &RestoreReport{
		From: plan.Cluster.Hex(), Checkpoint: plan.Checkpoint.Index,
		CheckpointAt: time.UnixMilli(plan.Checkpoint.WrittenAt).UTC().Format(time.RFC3339),
		Damaged:      plan.Damaged, Topics: []RestoredTopic{}, Clamps: []RestoreClamp{}, NotCommitted: []string{},
		Groups: len(plan.Groups), NextProducerID: plan.NextProducerID,
	}
	if report.Damaged == nil {
		report.Damaged = []string{}
	}
	for i := range plan.Topics {
		report.Topics = append(report.Topics, restoredTopic(&plan.Topics[i]))
	}
	for _, group := range plan.Groups {
		report.Offsets += len(group.Offsets)
	}
	for _, clamp := range plan.Clamps {
		report.Clamps = append(report.Clamps, RestoreClamp(clamp))
	}
	return report
}

func restoredTopic(topic *restore.Topic) RestoredTopic {
	restored := RestoredTopic{
		Name: topic.Name, ID: topic.ID.String(), Tiered: topic.Tiered, Partitions: []RestoredPartition{},
	}
	for i := range topic.Partitions {
		p := &topic.Partitions[i]
		damaged := p.Damaged
		if damaged == nil {
			damaged = []string{}
		}
		restored.Partitions = append(restored.Partitions, RestoredPartition{
			Partition: int32(i), Start: p.Start, End: p.End, CheckpointEnd: p.CheckpointEnd, Segments: p.Segments,
			Found: p.Found, Bytes: p.Bytes, LeaderEpoch: int32(p.LeaderEpoch), Damaged: damaged,
		})
	}
	return restored
}

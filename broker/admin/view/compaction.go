package view

// PathCompaction + "/{topic}" answers with the TopicCompaction of one topic; POST asks for a pass over its partitions
// first, or over the one that ?partition= names.
const PathCompaction = "/api/v1/compaction"

// TopicCompaction says where the compaction of a topic's partitions stands, as far as this broker leads them.
type TopicCompaction struct {
	Topic      string                `json:"topic"`
	TopicID    string                `json:"topic_id"`
	Partitions []PartitionCompaction `json:"partitions"`
}

// PartitionCompaction is one partition. A pass maps the keys of [StartOffset, EndOffset) and writes everything below
// EndOffset anew; where the keys did not all fit, EndOffset is below TargetOffset, and another pass goes on from there.
type PartitionCompaction struct {
	Partition int32 `json:"partition"`
	// Waiting is true while a pass that was asked for is still to come, Running while one is under way.
	Waiting bool `json:"waiting"`
	Running bool `json:"running"`
	// SetAside is why the partition cannot be compacted; empty while it can.
	SetAside string `json:"set_aside,omitempty"`
	// BrokenOff is why the last pass did not come to its end, as on a full disk; empty if it did. It is tried again.
	BrokenOff string `json:"broken_off,omitempty"`
	// Passes counts those since the broker's start; LastPassAt is when the last one ended.
	Passes     int64 `json:"passes"`
	LastPassAt int64 `json:"last_pass_at"`
	// DirtyBytes could be cleaned now; DirtyRatio is their share, 0 to 1.
	DirtyRatio float64 `json:"dirty_ratio"`
	DirtyBytes int64   `json:"dirty_bytes"`
	// What follows is of the pass under way, or of the last one.
	StartOffset  int64 `json:"start_offset"`
	EndOffset    int64 `json:"end_offset"`
	TargetOffset int64 `json:"target_offset"`
	BytesToRead  int64 `json:"bytes_to_read"`
	BytesRead    int64 `json:"bytes_read"`
	BytesWritten int64 `json:"bytes_written"`
	RecordsRead  int64 `json:"records_read"`
	RecordsKept  int64 `json:"records_kept"`
}

package view

// PathTier answers with a TierStatus; PathTier + "/{topic}" with the TierObjects of one topic.
const PathTier = "/api/v1/tier"

// TierStatus says how far each tiered partition led by this broker has sunk into the bucket.
type TierStatus struct {
	Partitions []TierPartition `json:"partitions"`
}

// TierPartition is one partition's storage: [Start, End) is in the bucket, [LocalStart, LogEnd) on local disk. Until
// local copies are dropped the two overlap.
type TierPartition struct {
	Topic     string `json:"topic"`
	TopicID   string `json:"topic_id"`
	Partition int32  `json:"partition"`
	// Start is the first remote offset; End is where the remote part ends. They are equal while nothing is remote.
	Start int64 `json:"start"`
	End   int64 `json:"end"`
	// LogStart is the first offset a consumer can read, from wherever it lies.
	LogStart int64 `json:"log_start"`
	// LocalStart is the first offset on local disk.
	LocalStart    int64 `json:"local_start"`
	HighWatermark int64 `json:"high_watermark"`
	LogEnd        int64 `json:"log_end"`
	// Segments and Bytes count what is in the bucket, LocalBytes what is on local disk.
	Segments    int64 `json:"segments"`
	Bytes       int64 `json:"bytes"`
	LocalBytes  int64 `json:"local_bytes"`
	LeaderEpoch int32 `json:"leader_epoch"`
	// UploadLagBytes is the size of the sealed local segments that are not in the bucket yet.
	UploadLagBytes int64 `json:"upload_lag_bytes"`
}

// TierObjects lists the segment objects of one topic, ordered by partition and base offset.
type TierObjects struct {
	Topic   string      `json:"topic"`
	TopicID string      `json:"topic_id"`
	Entries []TierEntry `json:"entries"`
}

// TierEntry is one committed segment object: it answers for [BaseOffset, EndOffset).
type TierEntry struct {
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	BaseOffset  int64  `json:"base_offset"`
	EndOffset   int64  `json:"end_offset"`
	LeaderEpoch int32  `json:"leader_epoch"`
	// UploadID is 32 hexadecimal digits, as in the key.
	UploadID string `json:"upload_id"`
	// Key is the object's name in the bucket, below the prefix of firn.object.store.
	Key string `json:"key"`
	// Bytes is the size of the whole object.
	Bytes        int64 `json:"bytes"`
	MaxTimestamp int64 `json:"max_timestamp"`
}

// Error is the body of every answer whose status is not 2xx.
type Error struct {
	Error string `json:"error"`
}

package view

// PathPins answers with the Pins there are. A POST of a PinRequest makes one and answers with a Pin. A POST to
// PathPins + "/{id}", with the new lease as ?lease.ms=, gives a pin another lease from now on, and answers with its
// PinStatus; a DELETE there ends it, and answers with what it was.
const PathPins = "/api/v1/pins"

// PinRequest asks for a snapshot of what of a topic is in the bucket, and that its objects are kept for a while: who
// has it reads the bucket without asking anybody again.
type PinRequest struct {
	Topic string `json:"topic"`
	// LeaseMs is for how long the objects are kept, of the time in which the cluster runs. 0 is six hours; seven days is
	// the most.
	LeaseMs int64 `json:"lease_ms,omitempty"`
	// Partitions are the ranges that are wanted; none: all that is there.
	Partitions []PinRange `json:"partitions,omitempty"`
}

// PinRange is the range [From, To) of a partition. In a request, what is not in the bucket is cut off, and a To of 0 is
// as far as it goes.
type PinRange struct {
	Partition int32 `json:"partition"`
	From      int64 `json:"from,omitempty"`
	To        int64 `json:"to,omitempty"`
}

// Pin is a snapshot of a topic.
type Pin struct {
	ID      string `json:"id"` // 32 hexadecimal digits
	LeaseMs int64  `json:"lease_ms"`
	// ClusterID is in hexadecimal, as in the bucket's keys, and so are Origins: the clusters that have written objects of
	// the topic, at least one. TopicID is as Kafka prints it.
	ClusterID string   `json:"cluster_id"`
	Topic     string   `json:"topic"`
	TopicID   string   `json:"topic_id"`
	Origins   []string `json:"origins"`
	// Store is the URL of the object store as the broker knows it (firn.object.store), which never holds credentials.
	Store      string         `json:"store,omitempty"`
	Partitions []PinPartition `json:"partitions"`
}

// PinPartition is what is pinned of a partition, [Start, End), and where its log is beside that.
type PinPartition struct {
	Partition int32 `json:"partition"`
	// LogStart is the log start offset. HighWatermark and LastStableOffset are where consumers come to an end at the
	// moment, under either isolation level; −1 if the log is offline.
	LogStart         int64 `json:"log_start"`
	HighWatermark    int64 `json:"high_watermark"`
	LastStableOffset int64 `json:"last_stable_offset"`
	Start            int64 `json:"start"`
	End              int64 `json:"end"`
	// Items are the top level of the manifest as far as it reaches into the range, in the binary form that the metadata
	// log has (docs/format.md): a list, read by command.ParseItems. They may reach beyond the range.
	Items []byte `json:"items"`
}

// Pins lists the pins of the cluster.
type Pins struct {
	Pins []PinStatus `json:"pins"`
}

// PinStatus is what a pin keeps, and for how long still.
type PinStatus struct {
	ID         string     `json:"id"`
	Topic      string     `json:"topic"` // empty if it is deleted
	TopicID    string     `json:"topic_id"`
	LeaseMs    int64      `json:"lease_ms"` // that is left
	Partitions []PinRange `json:"partitions"`
}

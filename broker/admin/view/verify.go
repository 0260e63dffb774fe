package view

// PathVerify answers with a Verification. A POST begins one: of the topics named by ?topic=, each once, or of all that
// are tiered, as closely as ?depth= says. DELETE ends it.
const PathVerify = "/api/v1/verify"

// Verification is how far a comparison of the bucket with the manifests is, or how the last one went.
type Verification struct {
	Topics []string `json:"topics"` // none: all
	Depth  string   `json:"depth"`
	// Scrub is set if nobody has asked for it.
	Scrub      bool  `json:"scrub"`
	Running    bool  `json:"running"`
	Partitions int   `json:"partitions"` // to verify
	Verified   int   `json:"verified"`   // of them
	Objects    int64 `json:"objects"`
	Bytes      int64 `json:"bytes"` // that were read of objects
	// StartedAt and EndedAt are Unix milliseconds; 0 is never, or not yet.
	StartedAt int64 `json:"started_at"`
	EndedAt   int64 `json:"ended_at"`
	// Found counts what is wrong by kind; Findings has the first thousand.
	Found    map[string]int64 `json:"found"`
	Findings []Finding        `json:"findings"`
	// Error is why it cannot go on at the moment, or was stopped.
	Error string `json:"error,omitempty"`
}

// Finding is one thing in the bucket that is not as it should be.
type Finding struct {
	Kind       string `json:"kind"` // missing, size, damaged, unknown, manifest
	Topic      string `json:"topic"`
	Partition  int32  `json:"partition"`
	BaseOffset int64  `json:"base_offset"`
	EndOffset  int64  `json:"end_offset"`
	Key        string `json:"key"`
	Detail     string `json:"detail"`
}

// PathGarbage answers with a Garbage. A POST has what is due deleted now.
const PathGarbage = "/api/v1/garbage"

// Garbage is what is in the bucket and belongs to no log any more, by what it waits for: the grace time, two durable
// checkpoints without it, the end of a bulk read's pin, or nothing.
type Garbage struct {
	Grace       int `json:"grace"`
	Checkpoints int `json:"checkpoints"`
	Pins        int `json:"pins"`
	Due         int `json:"due"`
	// At is when it was looked at last, in Unix milliseconds; 0 if it never was since the start.
	At    int64  `json:"at"`
	Error string `json:"error,omitempty"` // why the last collection failed
}

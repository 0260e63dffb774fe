package firn

import (
	"time"

	"github.com/firnlog/firn/broker/admin/view"
	"github.com/firnlog/firn/metastore/state"
	"github.com/firnlog/firn/tiering/verify"
)

// newVerifier makes what holds the bucket against the manifests.
func (n *Node) newVerifier() *verify.Verifier {
	tier := n.config.Tier
	return verify.New(verify.Options{
		Logger: n.logger, Registerer: n.deps.Registry, BrokerID: n.config.NodeID, ClusterID: n.meta.Image().ClusterID,
		Bucket: n.bucket, Metadata: n.meta, Manifests: n.tier.Manifests(), Store: n.state.Space(state.SpaceVerify),
		ScrubInterval: tier.ScrubInterval, ScrubDepth: verify.Depth(tier.ScrubDepth),
		BytesPerSecond: tier.VerifyBytesPerSecond,
	})
}

// shownTier shows the upkeep of the bucket to the HTTP listener.
type shownTier struct{ node *Node }

// Verify implements admin.Tier.
func (s shownTier) Verify(topics []string, depth string) error {
	return s.node.verifier.Start(verify.Request{Topics: topics, Depth: verify.Depth(depth)})
}

// StopVerifying implements admin.Tier.
func (s shownTier) StopVerifying() { s.node.verifier.Stop() }

// Verification implements admin.Tier.
func (s shownTier) Verification() view.Verification {
	progress := s.node.verifier.Progress()
	shown := view.Verification{
		Topics: progress.Topics, Depth: string(progress.Depth), Scrub: progress.Scrub, Running: progress.Running,
		Partitions: progress.Partitions, Verified: progress.Verified, Objects: progress.Objects, Bytes: progress.Bytes,
		StartedAt: progress.StartedAt, EndedAt: progress.EndedAt, Error: progress.Err,
		Found: map[string]int64{}, Findings: []view.Finding{},
	}
	for kind, count := range progress.Found {
		shown.Found[string(kind)] = count
	}
	for _, f := range progress.Findings {
		shown.Findings = append(shown.Findings, view.Finding{
			Kind: string(f.Kind), Topic: f.Topic, Partition: f.Partition, BaseOffset: f.BaseOffset, EndOffset: f.EndOffset,
			Key: f.Key, Detail: f.Detail,
		})
	}
	return shown
}

// Garbage implements admin.Tier.
func (s shownTier) Garbage(now bool) view.Garbage {
	if now {
		s.node.tier.Collect()
	}
	status := s.node.tier.Collection()
	shown := view.Garbage{
		Grace: status.Waits.Grace, Checkpoints: status.Waits.Checkpoints, Pins: status.Waits.Pins, Due: status.Waits.Due,
		At: unixMilli(status.At),
	}
	if status.Err != nil {
		shown.Error = status.Err.Error()
	}
	return shown
}

func unixMilli(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMilli()
}

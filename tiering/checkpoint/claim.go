package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/tiering/objectstore"
)

// A claim is an object <cluster id>/claim, which is written by whoever takes over what the cluster has in the bucket.
// Where there is none, the cluster itself owns it. It is JSON, for a person who looks into a bucket:
//
//	{"cluster":"<hex>","successor":"<hex>","written_at":<Unix ms>}
type claimObject struct {
	Cluster   string `json:"cluster"`
	Successor string `json:"successor"`
	WrittenAt int64  `json:"written_at"`
}

const (
	// maxClaimBytes is many times what a claim has.
	maxClaimBytes = 4096
	// maxSuccessions bounds a walk along claims that name each other in a circle, which only a person can have made.
	maxSuccessions = 64
)

// ErrSuperseded says that another cluster has taken over what this one has in the bucket. Nothing may be written there
// or collected any more.
var ErrSuperseded = errors.New("another cluster has taken over this cluster's part of the bucket")

// TakenError says who has taken over a cluster.
type TakenError struct {
	Cluster, Successor kafka.UUID
	At                 time.Time
}

// Error names both clusters.
func (e *TakenError) Error() string {
	return fmt.Sprintf("cluster %s was taken over by cluster %s at %s", e.Cluster.Hex(), e.Successor.Hex(),
		e.At.UTC().Format(time.RFC3339))
}

// Is makes it an ErrSuperseded.
func (e *TakenError) Is(target error) bool { return target == ErrSuperseded }

// successor reads who has taken over a cluster; nil if nobody has.
func successor(ctx context.Context, bucket objectstore.Bucket, cluster kafka.UUID) (*TakenError, error) {
	key := claimKey(cluster)
	data := make([]byte, maxClaimBytes)
	n, err := bucket.Get(ctx, key, 0, data)
	switch {
	case errors.Is(err, objectstore.ErrNotFound):
		return nil, nil
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("read who owns cluster %s: %w", cluster.Hex(), err)
	}
	var claim claimObject
	err = json.Unmarshal(data[:n], &claim)
	var id kafka.UUID
	if err == nil {
		id, err = parseHex(claim.Successor)
	}
	if err == nil && claim.Cluster != cluster.Hex() {
		err = fmt.Errorf("it is the claim of %q", claim.Cluster)
	}
	if err != nil {
		return nil, &CorruptError{Key: key, Err: err}
	}
	return &TakenError{Cluster: cluster, Successor: id, At: time.UnixMilli(claim.WrittenAt)}, nil
}

// Owner follows the claims from a cluster to the one that owns its part of the bucket now: itself if there is no claim.
func Owner(ctx context.Context, bucket objectstore.Bucket, cluster kafka.UUID) (kafka.UUID, error) {
	owner := cluster
	for range maxSuccessions {
		taken, err := successor(ctx, bucket, owner)
		if err != nil || taken == nil {
			return owner, err
		}
		owner = taken.Successor
	}
	return owner, fmt.Errorf("the claims on cluster %s go on and on: one of them was made by hand", cluster.Hex())
}

// Take makes a new cluster the owner of what another has in the bucket. Of several that try, one succeeds; the others
// get a *TakenError. Trying again with the same successor succeeds again.
func Take(ctx context.Context, bucket objectstore.Bucket, cluster, by kafka.UUID, now time.Time) error {
	_, err := bucket.PutIfAbsent(ctx, claimKey(cluster), encodeClaim(cluster, by, now))
	if err != nil {
		return fmt.Errorf("take over cluster %s: %w", cluster.Hex(), err)
	}
	return confirm(ctx, bucket, cluster, by)
}

// Replace takes a cluster over from a successor that never came to life. Whoever was named before stops at its next
// look at the claims.
func Replace(ctx context.Context, bucket objectstore.Bucket, cluster, from, by kafka.UUID, now time.Time) error {
	taken, err := successor(ctx, bucket, cluster)
	switch {
	case err != nil:
		return err
	case taken == nil:
		return Take(ctx, bucket, cluster, by, now)
	case taken.Successor != from && taken.Successor != by:
		return taken
	}
	// It replaces what was there. Two who do that at once both name the one that they mean to replace; who comes second
	// wins, and the first is told by the look that follows, or by its next one.
	if err := putObject(ctx, bucket, claimKey(cluster), encodeClaim(cluster, by, now)); err != nil {
		return fmt.Errorf("take over cluster %s: %w", cluster.Hex(), err)
	}
	return confirm(ctx, bucket, cluster, by)
}

// confirm looks whose the claim is: a store may not know conditional puts, and an answer may have been lost.
func confirm(ctx context.Context, bucket objectstore.Bucket, cluster, by kafka.UUID) error {
	taken, err := successor(ctx, bucket, cluster)
	switch {
	case err != nil:
		return err
	case taken == nil:
		return fmt.Errorf("take over cluster %s: the claim that was just written is not there", cluster.Hex())
	case taken.Successor != by:
		return taken
	}
	return nil
}

func encodeClaim(cluster, by kafka.UUID, now time.Time) []byte {
	data, err := json.Marshal(claimObject{Cluster: cluster.Hex(), Successor: by.Hex(), WrittenAt: now.UnixMilli()})
	if err != nil {
		panic(err) // strings and a number can always be encoded
	}
	return append(data, '\n')
}

// Claim is a cluster's right to its part of the bucket, and to that of the clusters it was restored from.
type Claim struct {
	bucket       objectstore.Bucket
	cluster      kafka.UUID
	predecessors func() ([]kafka.UUID, error)
}

// NewClaim makes the claim of a cluster. predecessors are the clusters whose objects its topics still have; nil: none.
func NewClaim(bucket objectstore.Bucket, cluster kafka.UUID, predecessors func() ([]kafka.UUID, error)) *Claim {
	return &Claim{bucket: bucket, cluster: cluster, predecessors: predecessors}
}

// Check asks the bucket whether the claim still holds: ErrSuperseded if it does not, another error if the bucket cannot
// tell. Whoever is about to write a checkpoint or to delete something asks first.
func (c *Claim) Check(ctx context.Context) error {
	clusters := []kafka.UUID{c.cluster}
	if c.predecessors != nil {
		predecessors, err := c.predecessors()
		if err != nil {
			return err
		}
		clusters = append(clusters, predecessors...)
	}
	for _, cluster := range clusters {
		owner, err := Owner(ctx, c.bucket, cluster)
		if err != nil {
			return err
		}
		if owner != c.cluster {
			return fmt.Errorf("%w: cluster %s owns what cluster %s has in the bucket", ErrSuperseded, owner.Hex(),
				cluster.Hex())
		}
	}
	return nil
}

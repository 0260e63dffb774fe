package objectstore

import "testing"

// NewStandInBucket is an S3 client, with retries, of a store that is played in memory.
func NewStandInBucket(scheme string) func(t *testing.T) Bucket {
	return func(t *testing.T) Bucket {
		bucket, _, _ := s3Under(t, newStandIn(t), scheme, nil)
		return bucket
	}
}

package objectstore

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
)

// statusNoBucket is the status of a probe that found no bucket and may not make one.
const statusNoBucket = "404 " + codeNoSuchBucket

// defaultRegion is what a store of one's own is told when nobody names a region; it is also the only one for which a
// bucket is made without naming it.
const defaultRegion = "us-east-1"

// ensureBucket asks for the bucket in a way whose refusal has a body that tells why, and makes it if it is missing and
// the store is not Amazon's: there, names are shared with the world and a bucket needs settings of its own.
func (s *S3) ensureBucket(ctx context.Context, folder string, logger *slog.Logger) error {
	input := &s3.ListObjectsV2Input{Bucket: &s.config.Bucket, MaxKeys: aws.Int32(1)}
	if folder != "" {
		input.Prefix = aws.String(folder + "/")
	}
	_, err := s.page(ctx, folder, input)
	var failure *Error
	if err == nil || !errors.As(err, &failure) || failure.Status != statusNoBucket || s.config.Endpoint == "" {
		return err
	}
	create := &s3.CreateBucketInput{Bucket: &s.config.Bucket}
	if s.config.Region != defaultRegion {
		create.CreateBucketConfiguration = &types.CreateBucketConfiguration{
			LocationConstraint: types.BucketLocationConstraint(s.config.Region)}
	}
	err = s.retrier.do(ctx, attemptOf{operation: OpCreateBucket}, func(ctx context.Context) error {
		_, err := s.client.CreateBucket(ctx, create)
		var api smithy.APIError
		if errors.As(err, &api) && api.ErrorCode() == "BucketAlreadyOwnedByYou" {
			return nil // another node was faster
		}
		if err != nil {
			return s.failure(ctx, OpCreateBucket, "", err)
		}
		return nil
	})
	if err == nil {
		logger.Info("made the bucket", "bucket", s.config.Bucket, "endpoint", s.config.Endpoint)
	}
	return err
}

func readerAt(data []byte) io.ReaderAt { return bytes.NewReader(data) }

package objectstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// awsSDK makes requests with Amazon's own library: s3:// URLs.
type awsSDK struct {
	client *s3.Client
	bucket string
}

var _ sdk = (*awsSDK)(nil)

// contentType is what objects are called in the store.
const contentType = "application/octet-stream"

// newAWS does no I/O.
func newAWS(cfg S3Config, credentials *credentialCache) *awsSDK {
	client := s3.New(s3.Options{
		Region:       cfg.Region,
		UsePathStyle: cfg.PathStyle,
		Credentials: aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
			found, err := credentials.get(ctx)
			return aws.Credentials{AccessKeyID: found.id, SecretAccessKey: found.secret, SessionToken: found.token}, err
		}),
		HTTPClient: &http.Client{Transport: cfg.Transport, CheckRedirect: noRedirect},
		Retryer:    aws.NopRetryer{},
		// Checksums are declared where they are known. The SDK's own would be trailers, which stores refuse on plain HTTP
		// and some altogether; what is read is checked against the object's own checksums.
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
	}, func(options *s3.Options) {
		if cfg.Endpoint != "" {
			options.BaseEndpoint = aws.String(cfg.Endpoint)
		}
	})
	return &awsSDK{client: client, bucket: cfg.Bucket}
}

// noRedirect: a redirect names another region, which is an error to be told and not to be followed.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// loadAWS reads what Amazon's tools read: environment, profiles, roles. It returns the region they name, if any, and
// how to get credentials from them.
func loadAWS(ctx context.Context, region string) (string, fetchCredentials, error) {
	var options []func(*config.LoadOptions) error
	if region != "" {
		options = append(options, config.WithRegion(region))
	}
	loaded, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return "", nil, fmt.Errorf("read the configuration of AWS credentials: %w", err)
	}
	return loaded.Region, func(ctx context.Context) (credentials, error) {
		if cache, ok := loaded.Credentials.(*aws.CredentialsCache); ok {
			cache.Invalidate() // it would keep what the store has called expired
		}
		found, err := loaded.Credentials.Retrieve(ctx)
		if err != nil {
			return credentials{}, err
		}
		fetched := credentials{id: found.AccessKeyID, secret: found.SecretAccessKey, token: found.SessionToken}
		if found.CanExpire {
			fetched.expires = found.Expires
		}
		return fetched, nil
	}, nil
}

// unsigned leaves the payload out of the signature where a checksum covers it.
func unsigned(body payload) func(*s3.Options) {
	if body.checksum == "" {
		return func(*s3.Options) {}
	}
	return s3.WithAPIOptions(v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware)
}

// orNil is for fields that must not be there rather than be empty.
func orNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func (a *awsSDK) putObject(ctx context.Context, key string, body *bodyReader, put payload) error {
	input := &s3.PutObjectInput{Bucket: &a.bucket, Key: &key, Body: body, ContentLength: &put.size,
		ContentType: aws.String(contentType), ChecksumCRC32C: orNil(put.checksum)}
	if put.ifAbsent {
		input.IfNoneMatch = aws.String("*")
	}
	_, err := a.client.PutObject(ctx, input, unsigned(put))
	return err
}

func (a *awsSDK) getObject(ctx context.Context, key string, first, last int64) (objectBody, error) {
	output, err := a.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &a.bucket, Key: &key,
		Range: aws.String(fmt.Sprintf("bytes=%d-%d", first, last))})
	if err != nil {
		return objectBody{}, err
	}
	return objectBody{ReadCloser: output.Body, size: aws.ToInt64(output.ContentLength),
		ranged: output.ContentRange != nil}, nil
}

func (a *awsSDK) headObject(ctx context.Context, key string) (int64, error) {
	output, err := a.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &a.bucket, Key: &key})
	if err != nil {
		return 0, err
	}
	return aws.ToInt64(output.ContentLength), nil
}

func (a *awsSDK) listObjects(ctx context.Context, prefix, after, cursor string) (objectPage, error) {
	output, err := a.client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &a.bucket, Prefix: &prefix,
		StartAfter: orNil(after), ContinuationToken: orNil(cursor)})
	if err != nil {
		return objectPage{}, err
	}
	page := objectPage{more: aws.ToBool(output.IsTruncated), cursor: aws.ToString(output.NextContinuationToken)}
	for _, object := range output.Contents {
		page.objects = append(page.objects, ObjectInfo{Key: aws.ToString(object.Key), Size: aws.ToInt64(object.Size)})
	}
	return page, nil
}

func (a *awsSDK) deleteObject(ctx context.Context, key string) error {
	_, err := a.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &a.bucket, Key: &key})
	return err
}

func (a *awsSDK) deleteObjects(ctx context.Context, keys []string) ([]undeleted, error) {
	identifiers := make([]types.ObjectIdentifier, len(keys))
	for i := range keys {
		identifiers[i].Key = &keys[i]
	}
	output, err := a.client.DeleteObjects(ctx, &s3.DeleteObjectsInput{
		Bucket: &a.bucket, ChecksumAlgorithm: types.ChecksumAlgorithmCrc32c,
		Delete: &types.Delete{Objects: identifiers, Quiet: aws.Bool(true)},
	})
	if err != nil {
		return nil, err
	}
	var failed []undeleted
	for _, one := range output.Errors {
		failed = append(failed, undeleted{key: aws.ToString(one.Key), code: aws.ToString(one.Code),
			message: aws.ToString(one.Message)})
	}
	return failed, nil
}

func (a *awsSDK) createUpload(ctx context.Context, key string, checksums bool) (string, error) {
	input := &s3.CreateMultipartUploadInput{Bucket: &a.bucket, Key: &key, ContentType: aws.String(contentType)}
	if checksums {
		input.ChecksumAlgorithm = types.ChecksumAlgorithmCrc32c
	}
	output, err := a.client.CreateMultipartUpload(ctx, input)
	if err != nil {
		return "", err
	}
	return aws.ToString(output.UploadId), nil
}

func (a *awsSDK) putPart(ctx context.Context, key, id string, number int, body *bodyReader, part payload) (
	string, error,
) {
	output, err := a.client.UploadPart(ctx, &s3.UploadPartInput{Bucket: &a.bucket, Key: &key, UploadId: &id,
		PartNumber: aws.Int32(int32(number)), Body: body, ContentLength: &part.size,
		ChecksumCRC32C: orNil(part.checksum)}, unsigned(part))
	if err != nil {
		return "", err
	}
	return aws.ToString(output.ETag), nil
}

func (a *awsSDK) completeUpload(ctx context.Context, key, id string, parts []uploadedPart) error {
	completed := make([]types.CompletedPart, len(parts))
	for i, part := range parts {
		completed[i] = types.CompletedPart{PartNumber: aws.Int32(int32(i + 1)), ETag: &part.etag,
			ChecksumCRC32C: orNil(part.checksum)}
	}
	_, err := a.client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{Bucket: &a.bucket, Key: &key,
		UploadId: &id, MultipartUpload: &types.CompletedMultipartUpload{Parts: completed}})
	return err
}

func (a *awsSDK) abortUpload(ctx context.Context, key, id string) error {
	_, err := a.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &a.bucket, Key: &key,
		UploadId: &id})
	return err
}

func (a *awsSDK) listUploads(ctx context.Context, prefix string, cursor uploadCursor) (uploadPage, error) {
	output, err := a.client.ListMultipartUploads(ctx, &s3.ListMultipartUploadsInput{Bucket: &a.bucket,
		Prefix: orNil(prefix), KeyMarker: orNil(cursor.key), UploadIdMarker: orNil(cursor.id)})
	if err != nil {
		return uploadPage{}, err
	}
	page := uploadPage{more: aws.ToBool(output.IsTruncated),
		cursor: uploadCursor{key: aws.ToString(output.NextKeyMarker), id: aws.ToString(output.NextUploadIdMarker)}}
	for _, upload := range output.Uploads {
		page.uploads = append(page.uploads, pendingUpload{key: aws.ToString(upload.Key),
			id: aws.ToString(upload.UploadId), began: aws.ToTime(upload.Initiated)})
	}
	return page, nil
}

func (a *awsSDK) createBucket(ctx context.Context, region string) error {
	input := &s3.CreateBucketInput{Bucket: &a.bucket}
	if region != defaultRegion {
		input.CreateBucketConfiguration = &types.CreateBucketConfiguration{
			LocationConstraint: types.BucketLocationConstraint(region)}
	}
	_, err := a.client.CreateBucket(ctx, input)
	return err
}

func (a *awsSDK) versioned(ctx context.Context) (bool, error) {
	output, err := a.client.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: &a.bucket})
	if err != nil {
		return false, err
	}
	return output.Status == types.BucketVersioningStatusEnabled, nil
}

func (a *awsSDK) lifecycle(ctx context.Context) ([]lifecycleRule, error) {
	output, err := a.client.GetBucketLifecycleConfiguration(ctx,
		&s3.GetBucketLifecycleConfigurationInput{Bucket: &a.bucket})
	if err != nil {
		return nil, err
	}
	var rules []lifecycleRule
	for _, rule := range output.Rules {
		if rule.Status != types.ExpirationStatusEnabled {
			continue
		}
		found := lifecycleRule{name: aws.ToString(rule.ID),
			aborts: rule.AbortIncompleteMultipartUpload != nil, archives: len(rule.Transitions) > 0}
		found.prefix = aws.ToString(rule.Prefix) //nolint:staticcheck // old rules have their prefix there, and stay
		if filter := rule.Filter; filter != nil && filter.Prefix != nil {
			found.prefix = *filter.Prefix
		} else if filter != nil && filter.And != nil {
			found.prefix = aws.ToString(filter.And.Prefix)
		}
		if expires := rule.Expiration; expires != nil {
			found.expires = aws.ToInt32(expires.Days) > 0 || expires.Date != nil
		}
		rules = append(rules, found)
	}
	return rules, nil
}

func (a *awsSDK) answer(err error) storeAnswer {
	var found storeAnswer
	var api smithy.APIError
	if errors.As(err, &api) {
		found.code, found.message = api.ErrorCode(), api.ErrorMessage()
	}
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) {
		found.status = response.HTTPStatusCode()
		if response.HTTPResponse() != nil {
			found.region = response.HTTPResponse().Header.Get("X-Amz-Bucket-Region")
		}
	}
	if found.code == strconv.Itoa(found.status) || found.code == statusName(found.status) {
		found.code = "" // the SDK's ways to say that there was none
	}
	return found
}

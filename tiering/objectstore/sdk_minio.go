package objectstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"
	miniocredentials "github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"
)

// minioSDK makes requests with MinIO's library: minio:// URLs.
type minioSDK struct {
	client *minio.Core
	bucket string
}

var _ sdk = (*minioSDK)(nil)

// newMinio does no I/O. The endpoint is a sound URL of a host.
func newMinio(cfg S3Config, credentials *credentialCache) (*minioSDK, error) {
	if err := s3utils.CheckValidBucketNameStrict(cfg.Bucket); err != nil {
		return nil, fmt.Errorf("bucket %q: %w", cfg.Bucket, err)
	}
	endpoint, err := url.Parse(cfg.Endpoint)
	if err != nil {
		return nil, err
	}
	lookup := minio.BucketLookupDNS
	if cfg.PathStyle {
		lookup = minio.BucketLookupPath
	}
	client, err := minio.NewCore(endpoint.Host, &minio.Options{
		Creds: miniocredentials.New(&minioProvider{credentials}), Secure: endpoint.Scheme == "https",
		Transport: cfg.Transport, Region: cfg.Region, BucketLookup: lookup, MaxRetries: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("the object store's endpoint %s: %w", cfg.Endpoint, err)
	}
	return &minioSDK{client: client, bucket: cfg.Bucket}, nil
}

// minioProvider shows MinIO's library the credentials there are.
type minioProvider struct{ credentials *credentialCache }

func (p *minioProvider) RetrieveWithCredContext(cc *miniocredentials.CredContext) (miniocredentials.Value, error) {
	ctx := context.Background()
	if cc != nil && cc.Context != nil {
		ctx = cc.Context
	}
	found, err := p.credentials.get(ctx)
	return miniocredentials.Value{AccessKeyID: found.id, SecretAccessKey: found.secret, SessionToken: found.token,
		Expiration: found.expires, SignerType: miniocredentials.SignatureV4}, err
}

func (p *minioProvider) Retrieve() (miniocredentials.Value, error) {
	return p.RetrieveWithCredContext(nil)
}

func (p *minioProvider) IsExpired() bool { return !p.credentials.fresh() }

// errNoCredentials: nothing has any.
var errNoCredentials = errors.New(
	"there are no credentials in the environment, in MinIO's or Amazon's files, nor a role")

// minioCredentials looks where MinIO's tools look: environment, files, role. The metadata service of a cloud's machine
// is left alone where AWS_EC2_METADATA_DISABLED says so, as by Amazon's tools.
func minioCredentials(transport http.RoundTripper) fetchCredentials {
	client := &http.Client{Transport: transport}
	return func(ctx context.Context) (credentials, error) {
		providers := []miniocredentials.Provider{
			&miniocredentials.EnvMinio{}, &miniocredentials.EnvAWS{},
			&miniocredentials.FileMinioClient{}, &miniocredentials.FileAWSCredentials{},
		}
		elsewhere := os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE") + os.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") +
			os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")
		if elsewhere != "" || !strings.EqualFold(os.Getenv("AWS_EC2_METADATA_DISABLED"), "true") {
			providers = append(providers, &miniocredentials.IAM{Client: client})
		}
		var failures error
		for _, provider := range providers {
			found, err := provider.RetrieveWithCredContext(&miniocredentials.CredContext{Client: client, Context: ctx})
			if err == nil && found.AccessKeyID != "" && found.SecretAccessKey != "" {
				return credentials{id: found.AccessKeyID, secret: found.SecretAccessKey, token: found.SessionToken,
					expires: found.Expiration}, nil
			}
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				failures = err // the last one is that of the role, which is the one that may come back
			}
		}
		if failures != nil {
			return credentials{}, fmt.Errorf("%w: %w", errNoCredentials, failures)
		}
		return credentials{}, errNoCredentials
	}
}

// hashed is the payload's hash for the signature, or nothing where a checksum covers it: then it is not signed.
func hashed(body *bodyReader, put payload) (string, error) {
	if put.checksum != "" {
		return "", nil
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, body); err != nil {
		return "", err
	}
	_, err := body.Seek(0, io.SeekStart)
	return hex.EncodeToString(hash.Sum(nil)), err
}

const checksumName = "X-Amz-Checksum-Crc32c"

func (m *minioSDK) putObject(ctx context.Context, key string, body *bodyReader, put payload) error {
	hash, err := hashed(body, put)
	if err != nil {
		return err
	}
	options := minio.PutObjectOptions{ContentType: contentType, DisableContentSha256: true}
	if put.checksum != "" {
		options.UserMetadata = map[string]string{checksumName: put.checksum}
	}
	if put.ifAbsent {
		options.SetMatchETagExcept("*")
	}
	_, err = m.client.PutObject(ctx, m.bucket, key, body, put.size, "", hash, options)
	return err
}

func (m *minioSDK) getObject(ctx context.Context, key string, first, last int64) (objectBody, error) {
	var options minio.GetObjectOptions
	if err := options.SetRange(first, last); err != nil {
		return objectBody{}, err
	}
	body, info, header, err := m.client.GetObject(ctx, m.bucket, key, options)
	if err != nil {
		return objectBody{}, err
	}
	return objectBody{ReadCloser: body, size: info.Size, ranged: header.Get("Content-Range") != ""}, nil
}

func (m *minioSDK) headObject(ctx context.Context, key string) (int64, error) {
	info, err := m.client.StatObject(ctx, m.bucket, key, minio.StatObjectOptions{})
	return info.Size, err
}

// keysPerPage is what a store gives at most in one answer.
const keysPerPage = 1000

// listObjects goes on by the last key: the library keeps a store's own cursors to itself.
func (m *minioSDK) listObjects(ctx context.Context, prefix, after, cursor string) (objectPage, error) {
	owner := false
	var page objectPage
	if cursor != "" {
		after = cursor
	}
	for object := range m.client.ListObjectsIter(ctx, m.bucket, minio.ListObjectsOptions{
		Prefix: prefix, StartAfter: after, Recursive: true, MaxKeys: keysPerPage, FetchOwner: &owner,
	}) {
		if said := m.answer(object.Err); said.status == 0 && said.code == "NotImplemented" {
			return objectPage{more: true}, nil // that is what the library calls a store that does not say where
		}
		if object.Err != nil {
			return objectPage{}, object.Err
		}
		page.objects = append(page.objects, ObjectInfo{Key: object.Key, Size: object.Size})
		if len(page.objects) == keysPerPage {
			page.more, page.cursor = true, object.Key
			break
		}
	}
	return page, ctx.Err() // the library says nothing of it
}

func (m *minioSDK) deleteObject(ctx context.Context, key string) error {
	return m.client.RemoveObject(ctx, m.bucket, key, minio.RemoveObjectOptions{})
}

func (m *minioSDK) deleteObjects(ctx context.Context, keys []string) ([]undeleted, error) {
	results, err := m.client.RemoveObjectsWithIter(ctx, m.bucket, func(yield func(minio.ObjectInfo) bool) {
		for _, key := range keys {
			if !yield(minio.ObjectInfo{Key: key}) {
				return
			}
		}
	}, minio.RemoveObjectsOptions{})
	if err != nil {
		return nil, err
	}
	var failed []undeleted
	for result := range results {
		if result.Err == nil {
			continue
		}
		found := m.answer(result.Err)
		if found.status != 0 || found.code == "" { // of the whole request
			return nil, result.Err
		}
		failed = append(failed, undeleted{key: result.ObjectName, code: found.code, message: found.message})
	}
	return failed, ctx.Err()
}

func (m *minioSDK) createUpload(ctx context.Context, key string, checksums bool) (string, error) {
	options := minio.PutObjectOptions{ContentType: contentType}
	if checksums {
		options.UserMetadata = map[string]string{"X-Amz-Checksum-Algorithm": "CRC32C"}
	}
	return m.client.NewMultipartUpload(ctx, m.bucket, key, options)
}

func (m *minioSDK) putPart(ctx context.Context, key, id string, number int, body *bodyReader, part payload) (
	string, error,
) {
	hash, err := hashed(body, part)
	if err != nil {
		return "", err
	}
	options := minio.PutObjectPartOptions{Sha256Hex: hash, DisableContentSha256: true}
	if part.checksum != "" {
		options.CustomHeader = http.Header{checksumName: {part.checksum}}
	}
	put, err := m.client.PutObjectPart(ctx, m.bucket, key, id, number, body, part.size, options)
	return put.ETag, err
}

func (m *minioSDK) completeUpload(ctx context.Context, key, id string, parts []uploadedPart) error {
	completed := make([]minio.CompletePart, len(parts))
	for i, part := range parts {
		completed[i] = minio.CompletePart{PartNumber: i + 1, ETag: part.etag, ChecksumCRC32C: part.checksum}
	}
	_, err := m.client.CompleteMultipartUpload(ctx, m.bucket, key, id, completed, minio.PutObjectOptions{})
	return err
}

func (m *minioSDK) abortUpload(ctx context.Context, key, id string) error {
	return m.client.AbortMultipartUpload(ctx, m.bucket, key, id)
}

func (m *minioSDK) listUploads(ctx context.Context, prefix string, cursor uploadCursor) (uploadPage, error) {
	found, err := m.client.ListMultipartUploads(ctx, m.bucket, prefix, cursor.key, cursor.id, "", 0)
	if err != nil {
		return uploadPage{}, err
	}
	page := uploadPage{more: found.IsTruncated,
		cursor: uploadCursor{key: found.NextKeyMarker, id: found.NextUploadIDMarker}}
	for _, upload := range found.Uploads {
		page.uploads = append(page.uploads, pendingUpload{key: upload.Key, id: upload.UploadID, began: upload.Initiated})
	}
	return page, nil
}

func (m *minioSDK) createBucket(ctx context.Context, region string) error {
	return m.client.MakeBucket(ctx, m.bucket, minio.MakeBucketOptions{Region: region})
}

func (m *minioSDK) versioned(ctx context.Context) (bool, error) {
	found, err := m.client.GetBucketVersioning(ctx, m.bucket)
	return found.Enabled(), err
}

func (m *minioSDK) lifecycle(ctx context.Context) ([]lifecycleRule, error) {
	found, err := m.client.GetBucketLifecycle(ctx, m.bucket)
	if err != nil {
		return nil, err
	}
	var rules []lifecycleRule
	for _, rule := range found.Rules {
		if rule.Status != "Enabled" {
			continue
		}
		prefix := rule.Prefix
		for _, other := range []string{rule.RuleFilter.Prefix, rule.RuleFilter.And.Prefix} {
			if other != "" {
				prefix = other
			}
		}
		rules = append(rules, lifecycleRule{
			name: rule.ID, prefix: prefix,
			expires:  !rule.Expiration.IsDaysNull() || !rule.Expiration.IsDateNull() || rule.AllVersionsExpiration.Days > 0,
			archives: rule.Transition.StorageClass != "",
			aborts:   rule.AbortIncompleteMultipartUpload.DaysAfterInitiation > 0,
		})
	}
	return rules, nil
}

func (m *minioSDK) answer(err error) storeAnswer {
	var response minio.ErrorResponse
	if !errors.As(err, &response) {
		return storeAnswer{}
	}
	found := storeAnswer{status: response.StatusCode, code: response.Code, message: response.Message,
		region: response.Region}
	if strings.HasPrefix(found.code, strconv.Itoa(found.status)) {
		found.code = "" // the library puts the status there if there is none
	}
	if found.message == "" {
		found.message = http.StatusText(found.status)
	}
	return found
}

package objectstore

import (
	"context"
	"io"
	"time"
)

// sdk makes the requests that S3 consists of, each of them once, and declares to the store exactly what it is told. Two
// libraries are behind it, which differ in where they take credentials from and in what stores they are used with. It
// is wide because it is a protocol: whatever can be decided without knowing the library is decided above it.
type sdk interface {
	putObject(ctx context.Context, key string, body *bodyReader, put payload) error
	// getObject asks for the bytes first to last, both included.
	getObject(ctx context.Context, key string, first, last int64) (objectBody, error)
	headObject(ctx context.Context, key string) (size int64, err error)
	// listObjects gives one page. cursor is what the page before it said; the first one begins after a key.
	listObjects(ctx context.Context, prefix, after, cursor string) (objectPage, error)
	deleteObject(ctx context.Context, key string) error
	// deleteObjects tells of the keys that could not be deleted.
	deleteObjects(ctx context.Context, keys []string) ([]undeleted, error)

	createUpload(ctx context.Context, key string, checksums bool) (id string, err error)
	putPart(ctx context.Context, key, id string, number int, body *bodyReader, part payload) (etag string, err error)
	completeUpload(ctx context.Context, key, id string, parts []uploadedPart) error
	abortUpload(ctx context.Context, key, id string) error
	listUploads(ctx context.Context, prefix string, cursor uploadCursor) (uploadPage, error)

	createBucket(ctx context.Context, region string) error
	versioned(ctx context.Context) (bool, error)
	lifecycle(ctx context.Context) ([]lifecycleRule, error)

	// answer finds what the store has answered in an error of the methods above.
	answer(err error) storeAnswer
}

// storeAnswer is what a store has said; the zero value is that it has not answered.
type storeAnswer struct {
	status  int    // of HTTP; 0 also where a library does not tell
	code    string // of the protocol, empty without one
	message string
	region  string // of the bucket, where the store names it
}

func (a storeAnswer) given() bool { return a.status != 0 || a.code != "" }

// payload describes the body of a put.
type payload struct {
	size int64
	// checksum is the CRC32C to declare, as headers have it. Without one the signature covers the payload instead, by a
	// hash that costs ten times as much.
	checksum string
	ifAbsent bool // If-None-Match
}

// objectBody is an answer that carries an object or a range of it.
type objectBody struct {
	io.ReadCloser
	size   int64 // announced
	ranged bool  // the store says that this is a range
}

// objectPage is a part of a listing. If there is more, cursor says where.
type objectPage struct {
	objects []ObjectInfo
	more    bool
	cursor  string
}

// undeleted is a key that a store would not delete, and why.
type undeleted struct {
	key, code, message string
}

// uploadedPart is a part of a multipart upload, in the order of their numbers from 1 on.
type uploadedPart struct{ etag, checksum string }

// pendingUpload is a multipart upload that has been begun.
type pendingUpload struct {
	key, id string
	began   time.Time // zero if the store does not say
}

type uploadCursor struct{ key, id string }

type uploadPage struct {
	uploads []pendingUpload
	more    bool
	cursor  uploadCursor
}

// lifecycleRule is what a bucket does with its objects by itself. Rules that are off are not listed.
type lifecycleRule struct {
	name, prefix string
	expires      bool // objects are removed
	archives     bool // objects are moved to where they may not be readable at once
	aborts       bool // multipart uploads under way are given up
}

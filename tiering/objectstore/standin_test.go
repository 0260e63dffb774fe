package objectstore

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/xml"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// standIn answers the requests of an S3 client in memory, without a network, so that tests can run in fake time and put
// any answer in a store's mouth. It is for the client's error handling; whether the client suits real stores is shown
// against a real server.
type standIn struct {
	t *testing.T
	// intercept may answer in the store's place, which then does nothing; a nil answer lets the request pass.
	intercept func(request *http.Request, body []byte) *http.Response
	// after may change an answer, or lose it, after the store has done what was asked.
	after func(request *http.Request, response *http.Response) *http.Response

	mu       sync.Mutex // guards the fields below
	requests []string   // method and path of each request, with what tells them apart
	objects  map[string][]byte
	uploads  map[string]*standInUpload
	serial   int
	noBucket bool

	// What the store says of the bucket; set before use. Without rules it says that there are none.
	versioning, lifecycle string
	clock                 time.Duration // its clock is ahead by so much; unset: it does not tell the time
}

type standInUpload struct {
	key       string
	parts     map[int][]byte
	initiated time.Time
}

func newStandIn(t *testing.T) *standIn {
	return &standIn{t: t, objects: map[string][]byte{}, uploads: map[string]*standInUpload{}}
}

// RoundTrip implements http.RoundTripper.
func (s *standIn) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := request.Context().Err(); err != nil {
		return nil, err
	}
	var body []byte
	if request.Body != nil {
		var err error
		if body, err = io.ReadAll(request.Body); err != nil {
			return nil, err
		}
		if err := request.Body.Close(); err != nil {
			return nil, err
		}
	}
	if encoding := request.Header.Get("Content-Encoding"); encoding != "" || request.Header.Get("X-Amz-Trailer") != "" {
		s.t.Errorf("%s %s: encoded as %q", request.Method, request.URL, encoding)
	}
	response := (*http.Response)(nil)
	if s.intercept != nil {
		response = s.intercept(request, body)
	}
	if response == nil {
		response = s.serve(request, body)
	}
	if s.clock != 0 {
		response.Header.Set("Date", time.Now().Add(s.clock).UTC().Format(http.TimeFormat))
	}
	if s.after != nil {
		response = s.after(request, response)
	}
	if response.StatusCode == 0 { // the connection broke
		return nil, io.ErrUnexpectedEOF
	}
	response.Request = request
	return response, nil
}

func answer(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)),
		ContentLength: int64(len(body)), ProtoMajor: 1, ProtoMinor: 1}
}

func refusal(status int, code, message string) *http.Response {
	return answer(status, fmt.Sprintf("<Error><Code>%s</Code><Message>%s</Message></Error>", code, message))
}

func broken() *http.Response { return &http.Response{} }

// serve does what a store does. Requests are path-style.
func (s *standIn) serve(request *http.Request, body []byte) *http.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	bucket, key, _ := strings.Cut(strings.TrimPrefix(request.URL.Path, "/"), "/")
	query := request.URL.Query()
	s.requests = append(s.requests, strings.TrimSuffix(fmt.Sprintf("%s /%s %s", request.Method, key, cmp.Or(
		query.Get("partNumber"), request.Header.Get("Range"))), " "))
	if key == "" && request.Method == http.MethodPut {
		s.noBucket = false
		return answer(http.StatusOK, "")
	}
	if s.noBucket || bucket == "" {
		return refusal(http.StatusNotFound, "NoSuchBucket", "The specified bucket does not exist")
	}
	if declared := request.Header.Get("X-Amz-Checksum-Crc32c"); declared != "" && declared != checksumHeader(body) {
		return refusal(http.StatusBadRequest, "BadDigest", "the checksum did not match")
	}
	switch {
	case query.Has("versioning"):
		return answer(http.StatusOK, "<VersioningConfiguration>"+s.versioning+"</VersioningConfiguration>")
	case query.Has("lifecycle") && s.lifecycle == "":
		return refusal(http.StatusNotFound, "NoSuchLifecycleConfiguration", "The lifecycle configuration does not exist")
	case query.Has("lifecycle"):
		return answer(http.StatusOK, "<LifecycleConfiguration>"+s.lifecycle+"</LifecycleConfiguration>")
	case query.Has("uploads") || query.Has("uploadId"):
		return s.serveUpload(request, key, body)
	case key == "" && request.Method == http.MethodGet:
		return s.list(query.Get("prefix"), cmp.Or(query.Get("continuation-token"), query.Get("start-after")))
	case key == "":
		return s.deleteSome(body)
	}
	return s.serveObject(request, key, body)
}

// lastModified is when everything was stored; a library will not do without.
const lastModified = "Mon, 02 Jan 2006 15:04:05 GMT"

func checksumHeader(body []byte) string {
	crc := crc32.Checksum(body, castagnoli)
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc))
}

func (s *standIn) serveObject(request *http.Request, key string, body []byte) *http.Response {
	object, exists := s.objects[key]
	switch request.Method {
	case http.MethodPut:
		if request.Header.Get("If-None-Match") == "*" && exists {
			return refusal(http.StatusPreconditionFailed, "PreconditionFailed", "it exists")
		}
		s.objects[key] = body
		return answer(http.StatusOK, "")
	case http.MethodDelete:
		delete(s.objects, key)
		return answer(http.StatusNoContent, "")
	}
	if !exists {
		response := refusal(http.StatusNotFound, "NoSuchKey", "The specified key does not exist.")
		if request.Method == http.MethodHead {
			response.Body = http.NoBody
		}
		return response
	}
	if request.Method == http.MethodHead {
		response := answer(http.StatusOK, "")
		response.ContentLength = int64(len(object))
		response.Header.Set("Content-Length", strconv.Itoa(len(object)))
		response.Header.Set("Last-Modified", lastModified)
		return response
	}
	var first, last int
	if n, err := fmt.Sscanf(request.Header.Get("Range"), "bytes=%d-%d", &first, &last); n != 2 {
		s.t.Errorf("range %q: %v", request.Header.Get("Range"), err)
	}
	if first >= len(object) {
		return refusal(http.StatusRequestedRangeNotSatisfiable, "InvalidRange", "The requested range is not satisfiable")
	}
	part := object[first:min(last+1, len(object))]
	response := answer(http.StatusPartialContent, string(part))
	response.Header.Set("Content-Length", strconv.Itoa(len(part)))
	response.Header.Set("Last-Modified", lastModified)
	response.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, first+len(part)-1, len(object)))
	return response
}

func (s *standIn) list(prefix, after string) *http.Response {
	var text strings.Builder
	count, last := 0, ""
	truncated := false
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if !strings.HasPrefix(key, prefix) || key <= after {
			continue
		}
		if count == 1000 {
			truncated = true
			break
		}
		text.WriteString("<Contents><Key>")
		_ = xml.EscapeText(&text, []byte(key)) // a strings.Builder takes all
		fmt.Fprintf(&text, "</Key><Size>%d</Size></Contents>", len(s.objects[key]))
		count, last = count+1, key
	}
	if truncated {
		text.WriteString("<NextContinuationToken>")
		_ = xml.EscapeText(&text, []byte(last))
		text.WriteString("</NextContinuationToken>")
	}
	return answer(http.StatusOK, fmt.Sprintf("<ListBucketResult>%s<IsTruncated>%v</IsTruncated></ListBucketResult>",
		text.String(), truncated))
}

func (s *standIn) deleteSome(body []byte) *http.Response {
	var request struct {
		Object []struct{ Key string }
	}
	if err := xml.Unmarshal(body, &request); err != nil {
		return refusal(http.StatusBadRequest, "MalformedXML", err.Error())
	}
	for _, object := range request.Object {
		delete(s.objects, object.Key)
	}
	return answer(http.StatusOK, "<DeleteResult></DeleteResult>")
}

func (s *standIn) serveUpload(request *http.Request, key string, body []byte) *http.Response {
	query := request.URL.Query()
	id := query.Get("uploadId")
	upload := s.uploads[id]
	switch {
	case request.Method == http.MethodGet:
		return s.listUploads(query.Get("prefix"))
	case id == "":
		s.serial++
		id = fmt.Sprintf("upload-%d", s.serial)
		s.uploads[id] = &standInUpload{key: key, parts: map[int][]byte{}, initiated: time.Now()}
		return answer(http.StatusOK, "<InitiateMultipartUploadResult><UploadId>"+id+
			"</UploadId></InitiateMultipartUploadResult>")
	case upload == nil:
		return refusal(http.StatusNotFound, "NoSuchUpload", "The specified upload does not exist.")
	case request.Method == http.MethodPut:
		number, _ := strconv.Atoi(query.Get("partNumber")) // 0 is no part that is asked for later
		upload.parts[number] = body
		response := answer(http.StatusOK, "")
		response.Header.Set("Etag", fmt.Sprintf("%q", "part"+query.Get("partNumber")))
		return response
	case request.Method == http.MethodDelete:
		delete(s.uploads, id)
		return answer(http.StatusNoContent, "")
	}
	return s.complete(id, upload, body)
}

func (s *standIn) complete(id string, upload *standInUpload, body []byte) *http.Response {
	var request struct {
		Part []struct {
			PartNumber     int
			ETag           string
			ChecksumCRC32C string
		}
	}
	if err := xml.Unmarshal(body, &request); err != nil {
		return refusal(http.StatusBadRequest, "MalformedXML", err.Error())
	}
	var object bytes.Buffer
	for i, part := range request.Part {
		data := upload.parts[part.PartNumber]
		if part.PartNumber != i+1 || strings.Trim(part.ETag, `"`) != fmt.Sprint("part", i+1) ||
			part.ChecksumCRC32C != checksumHeader(data) {
			return refusal(http.StatusBadRequest, "InvalidPart", fmt.Sprintf("part %d: %+v", i+1, part))
		}
		object.Write(data)
	}
	s.objects[upload.key] = object.Bytes()
	delete(s.uploads, id)
	return answer(http.StatusOK, "<CompleteMultipartUploadResult><Bucket>bucket</Bucket></CompleteMultipartUploadResult>")
}

func (s *standIn) listUploads(prefix string) *http.Response {
	var text strings.Builder
	for _, id := range slices.Sorted(maps.Keys(s.uploads)) {
		if upload := s.uploads[id]; strings.HasPrefix(upload.key, prefix) {
			fmt.Fprintf(&text, "<Upload><Key>%s</Key><UploadId>%s</UploadId><Initiated>%s</Initiated></Upload>", upload.key, id,
				upload.initiated.UTC().Format(time.RFC3339))
		}
	}
	return answer(http.StatusOK, "<ListMultipartUploadsResult>"+text.String()+"</ListMultipartUploadsResult>")
}

// took returns the requests since the last call.
func (s *standIn) took() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	requests := s.requests
	s.requests = nil
	return requests
}

// begin makes an upload that was begun so long ago and is nobody's any more.
func (s *standIn) begin(key string, age time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uploads["of "+key] = &standInUpload{key: key, initiated: time.Now().Add(-age)}
}

func (s *standIn) uploadsLeft() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.uploads)
}

package objectstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// underFunc makes a client of the stand-in with retries, as Open does.
type underFunc func(t *testing.T, store *standIn) (bucket *Retrying, client *S3, logged *lines)

// eachLibrary runs a test over both libraries that make requests.
func eachLibrary(t *testing.T, test func(t *testing.T, under underFunc)) {
	for _, scheme := range []string{schemeS3, schemeMinio} {
		t.Run(scheme, func(t *testing.T) {
			test(t, func(t *testing.T, store *standIn) (*Retrying, *S3, *lines) { return s3Under(t, store, scheme, nil) })
		})
	}
}

// s3Under makes a client of the stand-in. Without fetch its credentials never end.
func s3Under(t *testing.T, store *standIn, scheme string, fetch fetchCredentials) (*Retrying, *S3, *lines) {
	t.Helper()
	logged := &lines{}
	logger := slog.New(slog.NewTextHandler(logged, nil))
	retrier := NewRetrier(logger, rand.New(rand.NewPCG(1, 2)), DefaultRetryPolicy())
	if fetch == nil {
		fetch = func(context.Context) (credentials, error) { return credentials{id: "id", secret: "secret"}, nil }
	}
	cache := newCredentialCache(fetch, func(time.Time, error) {})
	cfg := S3Config{Scheme: scheme, Bucket: "bucket", Endpoint: "http://store:9000", Region: "us-east-1", PathStyle: true,
		Checksums: true, IdleTimeout: 15 * time.Second, Transport: store}
	var library sdk = newAWS(cfg, cache)
	if scheme == schemeMinio {
		var err error
		if library, err = newMinio(cfg, cache); err != nil {
			t.Fatal(err)
		}
	}
	client := newS3(library, cache, cfg, retrier)
	client.maxSinglePutBytes, client.partBytes = 64<<10, 16<<10 // the true ones take more time than they show
	return NewRetrying(client, retrier), client, logged
}

// lines collects what is logged.
type lines struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns all lines.
func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func putString(ctx context.Context, bucket Bucket, key, text string) error {
	return bucket.Put(ctx, key, strings.NewReader(text), int64(len(text)), PutOptions{})
}

func TestAnswersOfAStoreMeanWhatTheyShould(t *testing.T) {
	eachLibrary(t, func(t *testing.T, under underFunc) {
		cases := []struct {
			name     string
			response *http.Response
			kind     error
			status   string
			text     string
		}{
			{"TI-13 asked to slow down", refusal(503, "SlowDown", "Please reduce your request rate."), ErrUnavailable,
				"503 SlowDown", "Please reduce your request rate."},
			{"TI-13 an internal error", refusal(500, "InternalError", "We encountered an internal error."), ErrUnavailable,
				"500 InternalError", ""},
			{"a gateway without a body", answer(502, ""), ErrUnavailable, "502 BadGateway", ""},
			{"too many requests", answer(429, ""), ErrUnavailable, "429 TooManyRequests", ""},
			{"a request that took too long", refusal(400, "RequestTimeout", "Idle"), ErrUnavailable, "400 RequestTimeout", ""},
			{"a conflicting write", refusal(409, "OperationAborted", "conflict"), ErrUnavailable, "409 OperationAborted", ""},
			{"bytes damaged on the way", refusal(400, "BadDigest", "mismatch"), ErrUnavailable, "400 BadDigest", ""},
			{"access denied", refusal(403, "AccessDenied", "Access Denied"), ErrDenied, "403 AccessDenied", "Access Denied"},
			{"a wrong secret", refusal(403, "SignatureDoesNotMatch", "no match"), ErrDenied, "403 SignatureDoesNotMatch", ""},
			{"TI-20 an expired token", refusal(400, "ExpiredToken", "expired"), ErrUnavailable, "400 ExpiredToken", ""},
			{"a bad request", refusal(400, "InvalidArgument", "x"), nil, "400 InvalidArgument", ""},
			{"something not built", refusal(501, "NotImplemented", "x"), nil, "501 NotImplemented", ""},
			{"a missing bucket", refusal(404, "NoSuchBucket", "x"), nil, "404 NoSuchBucket", ""},
			{"TI-17 another region", refusal(400, "AuthorizationHeaderMalformed",
				"The authorization header is malformed; the region 'us-east-1' is wrong; expecting 'eu-central-1'"), nil,
				"400 AuthorizationHeaderMalformed", "the bucket is in region eu-central-1, not in us-east-1"},
			{"TI-17 a redirect to another region", redirect(), nil, "301 PermanentRedirect", "is in region ap-south-1"},
			{"a broken connection", broken(), ErrUnavailable, "network", ""},
		}
		for _, test := range cases {
			t.Run(test.name, func(t *testing.T) {
				store := newStandIn(t)
				store.intercept = func(*http.Request, []byte) *http.Response { return test.response }
				_, client, _ := under(t, store)
				err := putString(t.Context(), client, "a/key", "text")
				var failure *Error
				if !errors.As(err, &failure) {
					t.Fatalf("%v", err)
				}
				if failure.Kind != test.kind || failure.Status != test.status || !strings.Contains(err.Error(), test.text) {
					t.Errorf("kind %v, status %q: %v", failure.Kind, failure.Status, err)
				}
				if !strings.HasPrefix(err.Error(), "put "+client.name()+"/a/key: "+test.status) {
					t.Errorf("TI-14 operation, bucket, key and status should lead: %v", err)
				}
			})
		}
	})
}

func wholeObject(text string) *http.Response {
	response := answer(200, text)
	response.Header.Set("Content-Length", fmt.Sprint(len(text)))
	response.Header.Set("Last-Modified", lastModified)
	return response
}

func redirect() *http.Response {
	response := refusal(301, "PermanentRedirect", "The bucket must be addressed using the specified endpoint.")
	response.Header.Set("X-Amz-Bucket-Region", "ap-south-1")
	return response
}

// TestAnOutageIsSatOut is TI-13: a store that refuses for a while is asked again with growing waits, and not hammered.
func TestAnOutageIsSatOut(t *testing.T) {
	eachLibrary(t, func(t *testing.T, under underFunc) {
		synctest.Test(t, func(t *testing.T) {
			store := newStandIn(t)
			started, asked := time.Now(), 0
			store.intercept = func(*http.Request, []byte) *http.Response {
				asked++
				if time.Since(started) < 3*time.Second {
					return refusal(503, "SlowDown", "Please reduce your request rate.")
				}
				return nil
			}
			bucket, client, logged := under(t, store)
			if err := putString(t.Context(), bucket, "a/key", "text"); err != nil {
				t.Fatal(err)
			}
			if asked < 3 || asked > 8 {
				t.Errorf("asked %d times in 3 s", asked)
			}
			for _, want := range []string{"operation=put", "bucket=" + client.name(), "key=a/key", `status="503 SlowDown"`,
				"attempt=2"} {
				if !strings.Contains(logged.String(), want) {
					t.Errorf("TI-14 the log lacks %s:\n%s", want, logged)
				}
			}
			store.intercept = func(*http.Request, []byte) *http.Response { return refusal(500, "InternalError", "x") }
			err := putString(t.Context(), bucket, "a/key", "text")
			var failure *Error
			if !errors.As(err, &failure) || !errors.Is(err, ErrUnavailable) || failure.Attempts != 8 {
				t.Errorf("after all attempts: %v", err)
			}
			store.intercept = func(*http.Request, []byte) *http.Response { return refusal(403, "AccessDenied", "x") }
			store.took()
			if err := putString(t.Context(), bucket, "a/key", "text"); !errors.Is(err, ErrDenied) {
				t.Errorf("denied: %v", err)
			}
		})
	})
}

func TestAReadThatIsCutGoesOnWhereItWasCut(t *testing.T) {
	eachLibrary(t, func(t *testing.T, under underFunc) {
		synctest.Test(t, func(t *testing.T) {
			store := newStandIn(t)
			bucket, _, _ := under(t, store)
			text := strings.Repeat("0123456789", 10)
			if err := putString(t.Context(), bucket, "key", text); err != nil {
				t.Fatal(err)
			}
			store.took()
			cuts := []int{30, 0, 25}
			store.after = func(_ *http.Request, response *http.Response) *http.Response {
				if len(cuts) > 0 {
					response.Body, cuts = io.NopCloser(io.LimitReader(response.Body, int64(cuts[0]))), cuts[1:]
				}
				return response
			}
			dst := make([]byte, 80)
			n, err := bucket.Get(t.Context(), "key", 10, dst)
			if n != 80 || err != nil || string(dst) != text[10:90] {
				t.Errorf("read %d bytes, %v", n, err)
			}
			want := []string{"GET /key bytes=10-89", "GET /key bytes=40-89", "GET /key bytes=40-89", "GET /key bytes=65-89"}
			if got := store.took(); !slices.Equal(got, want) {
				t.Errorf("asked %q", got)
			}
		})
	})
}

func TestABodyThatStallsIsGivenUpAndResumed(t *testing.T) {
	eachLibrary(t, func(t *testing.T, under underFunc) {
		synctest.Test(t, func(t *testing.T) {
			store := newStandIn(t)
			bucket, _, logged := under(t, store)
			if err := putString(t.Context(), bucket, "key", "0123456789"); err != nil {
				t.Fatal(err)
			}
			store.took()
			stall := true
			store.after = func(request *http.Request, response *http.Response) *http.Response {
				if stall {
					response.Body = &stallingBody{ctx: request.Context(), before: response.Body, bytes: 4}
				}
				stall = false
				return response
			}
			started, dst := time.Now(), make([]byte, 10)
			if n, err := bucket.Get(t.Context(), "key", 0, dst); n != 10 || err != nil || string(dst) != "0123456789" {
				t.Errorf("read %d bytes, %v", n, err)
			}
			if took := time.Since(started); took < 15*time.Second || took > 17*time.Second {
				t.Errorf("it took %s", took)
			}
			if want := []string{"GET /key bytes=0-9", "GET /key bytes=4-9"}; !slices.Equal(store.took(), want) {
				t.Error("the second request did not go on where the first had stalled")
			}
			if !strings.Contains(logged.String(), "status=stalled") {
				t.Errorf("logged:\n%s", logged)
			}
		})
	})
}

// stallingBody gives some bytes and then nothing until the request is given up.
type stallingBody struct {
	ctx    context.Context
	before io.ReadCloser
	bytes  int
}

// Read implements io.Reader.
func (b *stallingBody) Read(p []byte) (int, error) {
	if b.bytes == 0 {
		<-b.ctx.Done()
		return 0, b.ctx.Err()
	}
	n, err := b.before.Read(p[:min(len(p), b.bytes)])
	b.bytes -= n
	return n, err
}

// Close implements io.Closer.
func (b *stallingBody) Close() error { return b.before.Close() }

func TestARequestWithoutAnAnswerIsGivenUpAndMadeAgain(t *testing.T) {
	eachLibrary(t, func(t *testing.T, under underFunc) {
		synctest.Test(t, func(t *testing.T) {
			store := newStandIn(t)
			hang := true
			store.intercept = func(request *http.Request, _ []byte) *http.Response {
				if !hang {
					return nil
				}
				hang = false
				<-request.Context().Done()
				return broken()
			}
			bucket, _, _ := under(t, store)
			started := time.Now()
			if err := putString(t.Context(), bucket, "key", "text"); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(started); took < 30*time.Second || took > 32*time.Second {
				t.Errorf("it took %s", took)
			}
			hang = true
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err := putString(ctx, bucket, "key", "text")
			if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnavailable) {
				t.Errorf("the caller's own deadline: %v", err)
			}
		})
	})
}

// TestTI20ExpiredCredentialsAreFetchedAnew at once, whatever end they were said to have.
func TestTI20ExpiredCredentialsAreFetchedAnew(t *testing.T) {
	for _, scheme := range []string{schemeS3, schemeMinio} {
		for _, code := range []string{"ExpiredToken", "InvalidAccessKeyId"} {
			t.Run(scheme+" "+code, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := newStandIn(t)
					fetched := 0
					bucket, _, _ := s3Under(t, store, scheme, func(context.Context) (credentials, error) {
						fetched++
						return credentials{id: fmt.Sprint("id", fetched), secret: "secret", token: "token",
							expires: time.Now().Add(time.Hour)}, nil
					})
					store.intercept = func(request *http.Request, _ []byte) *http.Response {
						if strings.Contains(request.Header.Get("Authorization"), "Credential=id3/") &&
							request.Header.Get("X-Amz-Security-Token") == "token" {
							return nil
						}
						return refusal(403, code, "The provided token has expired.")
					}
					if err := putString(t.Context(), bucket, "key", "text"); err != nil || fetched != 3 {
						t.Errorf("credentials were fetched %d times: %v", fetched, err)
					}
					store.intercept = func(request *http.Request, _ []byte) *http.Response {
						if strings.Contains(request.Header.Get("Authorization"), "Credential=id4/") {
							return nil
						}
						return answer(400, "") // as HEAD says it
					}
					if _, err := bucket.Stat(t.Context(), "key"); err != nil {
						t.Errorf("stat: %v", err)
					}
				})
			})
		}
	}
}

func TestOnlyThePartThatFailedIsSentAgain(t *testing.T) {
	eachLibrary(t, func(t *testing.T, under underFunc) {
		synctest.Test(t, func(t *testing.T) {
			store := newStandIn(t)
			failures := map[string]int{"2": 2, "5": 1}
			store.intercept = func(request *http.Request, body []byte) *http.Response {
				part := request.URL.Query().Get("partNumber")
				store.mu.Lock()
				defer store.mu.Unlock()
				if failures[part] > 0 {
					failures[part]--
					return refusal(500, "InternalError", "x")
				}
				return nil
			}
			bucket, _, _ := under(t, store)
			data := bytes.Repeat([]byte("firn"), 18<<10) // five parts, the last one shorter
			if err := bucket.Put(t.Context(), "large", bytes.NewReader(data), int64(len(data)), PutOptions{}); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(store.objects["large"], data) {
				t.Error("the object is not what was put")
			}
			requests := store.took()
			slices.Sort(requests)
			want := []string{"POST /large", "POST /large", "PUT /large 1", "PUT /large 2", "PUT /large 3", "PUT /large 4",
				"PUT /large 5"}
			if !slices.Equal(requests, want) {
				t.Errorf("asked %q", requests)
			}
		})
	})
}

func TestAnUploadThatFailsIsAbortedAndOneThatWasTakenAwayBeginsAnew(t *testing.T) {
	eachLibrary(t, func(t *testing.T, under underFunc) {
		data := bytes.Repeat([]byte("firn"), 17<<10)
		put := func(t *testing.T, store *standIn) error {
			bucket, _, _ := under(t, store)
			return bucket.Put(t.Context(), "large", bytes.NewReader(data), int64(len(data)), PutOptions{})
		}
		t.Run("denied in the middle", func(t *testing.T) {
			store := newStandIn(t)
			store.intercept = func(request *http.Request, _ []byte) *http.Response {
				if request.URL.Query().Get("partNumber") == "3" {
					return refusal(403, "AccessDenied", "x")
				}
				return nil
			}
			if err := put(t, store); !errors.Is(err, ErrDenied) || len(store.uploads) != 0 {
				t.Errorf("%v, %d uploads are left", err, len(store.uploads))
			}
		})
		t.Run("aborted by a lifecycle rule", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newStandIn(t)
				taken := false
				store.intercept = func(request *http.Request, _ []byte) *http.Response {
					store.mu.Lock()
					defer store.mu.Unlock()
					if request.URL.Query().Get("partNumber") == "4" && !taken {
						taken = true
						clear(store.uploads)
					}
					return nil
				}
				if err := put(t, store); err != nil || !bytes.Equal(store.objects["large"], data) || len(store.uploads) != 0 {
					t.Errorf("%v, %d uploads are left", err, len(store.uploads))
				}
			})
		})
		t.Run("the caller gives up", func(t *testing.T) {
			store := newStandIn(t)
			ctx, cancel := context.WithCancel(t.Context())
			store.intercept = func(request *http.Request, _ []byte) *http.Response {
				if request.URL.Query().Get("partNumber") == "2" {
					cancel()
				}
				return nil
			}
			bucket, _, _ := under(t, store)
			err := bucket.Put(ctx, "large", bytes.NewReader(data), int64(len(data)), PutOptions{})
			if !errors.Is(err, context.Canceled) || len(store.uploads) != 0 || len(store.objects) != 0 {
				t.Errorf("%v, %d uploads are left", err, len(store.uploads))
			}
		})
	})
}

func TestABodyThatCannotBeReadIsNotTheStoresFault(t *testing.T) {
	eachLibrary(t, func(t *testing.T, under underFunc) {
		store := newStandIn(t)
		bucket, _, _ := under(t, store)
		for _, size := range []int64{100, 70 << 10} {
			err := bucket.Put(t.Context(), "key", failingReader{}, size, PutOptions{})
			if err == nil || errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "the disk is gone") {
				t.Errorf("%d bytes: %v", size, err)
			}
		}
		if len(store.objects)+len(store.uploads) != 0 {
			t.Error("something was stored")
		}
	})
}

type failingReader struct{}

// ReadAt implements io.ReaderAt.
func (failingReader) ReadAt([]byte, int64) (int, error) { return 0, errors.New("the disk is gone") }

func TestPutIfAbsentWithoutTheStoresHelp(t *testing.T) {
	eachLibrary(t, func(t *testing.T, under underFunc) {
		store := newStandIn(t)
		store.intercept = func(request *http.Request, _ []byte) *http.Response {
			if request.Header.Get("If-None-Match") != "" {
				return refusal(501, "NotImplemented", "A header you provided implies functionality that is not implemented")
			}
			return nil
		}
		bucket, client, _ := under(t, store)
		for i, want := range []bool{true, false} {
			created, err := bucket.PutIfAbsent(t.Context(), "claim", []byte(fmt.Sprint("writer ", i)))
			if created != want || err != nil {
				t.Errorf("writer %d: %v, %v", i, created, err)
			}
		}
		if client.conditional.Load() || string(store.objects["claim"]) != "writer 0" {
			t.Errorf("the claim holds %q", store.objects["claim"])
		}
	})
}

func TestAStoreThatBreaksTheProtocolIsNotTrusted(t *testing.T) {
	eachLibrary(t, func(t *testing.T, under underFunc) {
		for name, test := range map[string]struct {
			response *http.Response
			call     func(ctx context.Context, bucket Bucket) error
			want     string
		}{
			"keys out of order": {answer(200, "<ListBucketResult><Contents><Key>b</Key><Size>1</Size></Contents><Contents>"+
				"<Key>a</Key><Size>1</Size></Contents></ListBucketResult>"),
				func(ctx context.Context, bucket Bucket) error {
					return bucket.List(ctx, "", "", func(ObjectInfo) error { return nil })
				}, "it lists a after b"},
			"a listing without an end": {answer(200, "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"),
				func(ctx context.Context, bucket Bucket) error {
					return bucket.List(ctx, "", "", func(ObjectInfo) error { return nil })
				}, "not where"},
			"the whole object instead of a range": {wholeObject("0123456789"),
				func(ctx context.Context, bucket Bucket) error {
					_, err := bucket.Get(ctx, "key", 2, make([]byte, 3))
					return err
				}, "ignores ranges"},
		} {
			t.Run(name, func(t *testing.T) {
				store := newStandIn(t)
				store.intercept = func(*http.Request, []byte) *http.Response { return test.response }
				bucket, _, _ := under(t, store)
				err := test.call(t.Context(), bucket)
				if err == nil || errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%v", err)
				}
			})
		}
	})
}

func TestOnlyOldUploadsOfTheOwnFolderAreStale(t *testing.T) {
	eachLibrary(t, func(t *testing.T, under underFunc) {
		store := newStandIn(t)
		_, client, _ := under(t, store)
		now := time.Now()
		store.begin("own/old", 7*time.Hour)
		store.begin("own/young", 5*time.Hour)
		store.begin("own-not/others", 7*time.Hour)
		aborted, err := client.AbortStaleUploads(t.Context(), "own", now.Add(-6*time.Hour))
		if aborted != 1 || err != nil || store.uploads["of own/old"] != nil || store.uploadsLeft() != 2 {
			t.Errorf("aborted %d, left %d: %v", aborted, len(store.uploads), err)
		}
	})
}

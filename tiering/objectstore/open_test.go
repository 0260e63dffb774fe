package objectstore

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/firnlog/firn/internal/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// openWith opens a URL with the stand-in as the network and credentials in the environment.
func openWith(t *testing.T, location string, transport http.RoundTripper) (*Store, *lines, error) {
	t.Helper()
	logged := &lines{}
	store, err := Open(t.Context(), location, testDependencies(logged, transport, prometheus.NewRegistry()))
	return store, logged, err
}

func testDependencies(logged *lines, transport http.RoundTripper, registry prometheus.Registerer) Dependencies {
	return Dependencies{Logger: slog.New(slog.NewTextHandler(logged, nil)), Registerer: registry, FS: vfs.NewMem(),
		Rand: rand.New(rand.NewPCG(1, 2)), Transport: transport}
}

func setCredentials(t *testing.T) {
	t.Helper()
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret",
		"AWS_REGION": "", "AWS_DEFAULT_REGION": "", "AWS_PROFILE": "", "AWS_CONFIG_FILE": "none",
		"AWS_SHARED_CREDENTIALS_FILE": "none", "AWS_EC2_METADATA_DISABLED": "true", "MINIO_ROOT_USER": "",
		"MINIO_ACCESS_KEY": "", "MINIO_SHARED_CREDENTIALS_FILE": "none"} {
		t.Setenv(name, value)
	}
}

func TestURLsThatNameNoStoreAreRefusedWithWhatWouldDo(t *testing.T) {
	setCredentials(t)
	for location, want := range map[string]string{
		"":                                       "it is one of s3://",
		"bucket":                                 "it is one of s3://",
		"http://bucket":                          "it is one of s3://",
		"s3://":                                  "names no bucket",
		"s3:bucket":                              "names no bucket",
		"s3://bucket:80":                         "names no bucket",
		"s3://id:topsecret@bucket":               "must not hold credentials",
		"s3://bucket?access_key=id":              "AWS_ACCESS_KEY_ID",
		"s3://bucket?secret_key=topsecret":       "AWS_ACCESS_KEY_ID",
		"s3://bucket?endpoint=store:9000":        "must be http://HOST",
		"s3://bucket?endpoint=http://store/path": "must be http://HOST",
		"s3://bucket?endpoint=http://id:topsecret@store": "must be http://HOST",
		"s3://bucket?path_style=maybe":                   "path_style=maybe in the object store's URL: it is true or false",
		"s3://bucket?checksum=yes":                       "it is on or off",
		"s3://bucket?region=a&region=b":                  "twice",
		"s3://bucket?region=%zz":                         "invalid URL escape",
		"s3://bucket/a//b":                               "the folder in the object store's URL",
		"s3://bucket/a":                                  "set region= in the URL or AWS_REGION",
		"s3://id:topsecret%zz@bucket":                    "cannot be read",
		"file://data/bucket":                             "three slashes",
		"file:///data?x=y":                               "three slashes",
		"minio://bucket/folder":                          "needs endpoint=",
		"minio://ab?endpoint=http://store":               "cannot be shorter",
		"minio://id:topsecret@bucket":                    "must not hold credentials",
		"gs://bucket":                                    "it is one of s3://",
	} {
		_, logged, err := openWith(t, location, newStandIn(t))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", location, err)
			continue
		}
		if strings.Contains(err.Error()+logged.String(), "topsecret") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: the error gives a secret away or is more than a line: %v", location, err)
		}
	}
}

// TestAddressingSuitsTheStore is TI-19.
func TestAddressingSuitsTheStore(t *testing.T) {
	for query, want := range map[string]S3Config{
		"s3://bucket?region=r": {Bucket: "bucket", Region: "r", PathStyle: false, Checksums: true},
		"s3://a.b.c?region=r":  {Bucket: "a.b.c", Region: "r", PathStyle: true, Checksums: true},
		"s3://bucket?endpoint=http://localhost:9000": {Bucket: "bucket", Endpoint: "http://localhost:9000", PathStyle: true,
			Checksums: true},
		"s3://bucket?endpoint=https://store/&path_style=false": {Bucket: "bucket", Endpoint: "https://store",
			PathStyle: false, Checksums: true},
		"minio://bucket?endpoint=http://localhost:9000": {Bucket: "bucket", Endpoint: "http://localhost:9000", PathStyle: true,
			Checksums: true},
		"s3://bucket/folder?path_style=true&checksum=off": {Bucket: "bucket", PathStyle: true, Checksums: false},
	} {
		location, err := url.Parse(query)
		if err != nil {
			t.Fatal(err)
		}
		want.IdleTimeout, want.Scheme = 15*time.Second, location.Scheme
		if got, err := parseS3URL(location); got != want || err != nil {
			t.Errorf("%s: %+v, %v", query, got, err)
		}
	}
	setCredentials(t)
	for location, want := range map[string]string{
		"s3://a.b.c/x?region=eu-central-1":                   "s3.eu-central-1.amazonaws.com/a.b.c/",
		"s3://bucket/x?region=eu-central-1":                  "bucket.s3.eu-central-1.amazonaws.com/",
		"s3://bucket/x?endpoint=http://localhost:9000":       "localhost:9000/bucket/",
		"s3://bucket/x?endpoint=http://h:1&path_style=false": "bucket.h:1/",
		"minio://a.b.c/x?endpoint=http://h:1":                "h:1/a.b.c/",
		"minio://bkt/x?endpoint=http://h:1&path_style=false": "bkt.h:1/",
	} {
		store, asked := newStandIn(t), ""
		store.intercept = func(request *http.Request, _ []byte) *http.Response {
			asked = request.URL.Host + request.URL.Path
			return refusal(403, "AccessDenied", "Access Denied")
		}
		if _, _, err := openWith(t, location, store); !errors.Is(err, ErrDenied) || !strings.HasPrefix(asked+"/", want) {
			t.Errorf("%s: asked %s, %v", location, asked, err)
		}
	}
}

func TestAProbeUsesAllItIsGoingToUseAndLeavesNothing(t *testing.T) {
	setCredentials(t)
	for _, scheme := range []string{schemeS3, schemeMinio} {
		t.Run(scheme, func(t *testing.T) {
			network := newStandIn(t)
			network.noBucket = true
			store, logged, err := openWith(t, scheme+"://bucket/a/folder?endpoint=http://store:9000", network)
			if err != nil {
				t.Fatal(err)
			}
			var methods []string
			for _, request := range network.took() {
				methods = append(methods, request[:strings.LastIndexByte(request, '/')+1])
			}
			want := "GET / PUT / PUT /a/folder/probe/ GET /a/folder/probe/ GET / PUT /a/folder/probe/ DELETE /a/folder/probe/ " +
				"HEAD /a/folder/probe/ GET / GET /"
			if got := strings.Join(methods, " "); got != want {
				t.Errorf("asked\n%s, not\n%s", got, want)
			}
			if len(network.objects) != 0 || !strings.Contains(logged.String(), "made the bucket") {
				t.Errorf("left %d objects; logged:\n%s", len(network.objects), logged)
			}
			if got := store.String(); got != scheme+"://bucket/a/folder (endpoint http://store:9000, region us-east-1)" {
				t.Errorf("the store is called %s", got)
			}
		})
	}
}

// TestAStoreThatCannotBeUsedIsRefusedAtTheStart is TI-17.
func TestAStoreThatCannotBeUsedIsRefusedAtTheStart(t *testing.T) {
	setCredentials(t)
	for name, test := range map[string]struct {
		response *http.Response
		want     []string
	}{
		"another region": {refusal(400, "AuthorizationHeaderMalformed",
			"the region 'eu-west-1' is wrong; expecting 'us-west-2'"),
			[]string{"the bucket is in region us-west-2, not in eu-west-1", "set region=us-west-2"}},
		"another region, as versitygw says it": {refusal(400, "AuthorizationHeaderMalformed",
			`the region "eu-west-1" is wrong; expecting "us-east-1"`),
			[]string{"the bucket is in region us-east-1, not in eu-west-1", "set region=us-east-1"}},
		"an unknown access key, as versitygw says it": {refusal(404, "XAdminUserNotFound", "No user exists"),
			[]string{"404 XAdminUserNotFound", "check the credentials"}},
		"no bucket": {refusal(404, "NoSuchBucket", "The specified bucket does not exist"),
			[]string{"404 NoSuchBucket", "create the bucket or correct its name"}},
		"denied": {refusal(403, "AccessDenied", "Access Denied"),
			[]string{"403 AccessDenied", "check the credentials"}},
	} {
		network := newStandIn(t)
		network.intercept = func(*http.Request, []byte) *http.Response { return test.response }
		_, _, err := openWith(t, "s3://events/x?region=eu-west-1", network)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		for _, want := range append(test.want, "s3://events/x (endpoint of Amazon, region eu-west-1)") {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is not in: %v", name, want, err)
			}
		}
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	_, _, err := openWith(t, "s3://events/x?region=eu-west-1", newStandIn(t))
	if err == nil || !strings.Contains(err.Error(), "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY") {
		t.Errorf("without credentials: %v", err)
	}
}

// TestAStoreThatRefusesChecksumsIsUsedWithoutThem is TI-16.
func TestAStoreThatRefusesChecksumsIsUsedWithoutThem(t *testing.T) {
	setCredentials(t)
	for _, scheme := range []string{schemeS3, schemeMinio} {
		t.Run(scheme, func(t *testing.T) {
			for _, parameter := range []string{"", "&checksum=off"} {
				network := newStandIn(t)
				network.intercept = func(request *http.Request, _ []byte) *http.Response {
					for name := range request.Header {
						if strings.HasPrefix(strings.ToLower(name), "x-amz-checksum-") {
							return refusal(400, "InvalidRequest", "unsupported header")
						}
					}
					if request.Method == http.MethodPut && request.Header.Get("X-Amz-Content-Sha256") == "UNSIGNED-PAYLOAD" {
						t.Error("neither checksum nor signature covers the payload")
					}
					return nil
				}
				store, logged, err := openWith(t, scheme+"://bucket?endpoint=http://store:9000"+parameter, network)
				if err != nil {
					t.Fatal(err)
				}
				if told := strings.Contains(logged.String(), "refuses CRC32C"); told != (parameter == "") {
					t.Errorf("%q logged:\n%s", parameter, logged)
				}
				for _, key := range []string{"a", "b"} {
					if err := putString(t.Context(), store, key, "text"); err != nil {
						t.Error(err)
					}
				}
				if err := store.Delete(t.Context(), "a", "b"); err != nil || len(network.objects) != 0 {
					t.Errorf("%v, left %d objects", err, len(network.objects))
				}
			}
		})
	}
}

func TestAStoreThatIgnoresConditionsIsNoticed(t *testing.T) {
	setCredentials(t)
	network := newStandIn(t)
	network.intercept = func(request *http.Request, _ []byte) *http.Response {
		request.Header.Del("If-None-Match")
		return nil
	}
	store, logged, err := openWith(t, "s3://bucket?endpoint=http://store:9000", network)
	if err != nil || !strings.Contains(logged.String(), "ignores If-None-Match") {
		t.Fatalf("%v, logged:\n%s", err, logged)
	}
	for i, want := range []bool{true, false} {
		if created, err := store.PutIfAbsent(t.Context(), "claim", []byte{byte(i + 1)}); created != want || err != nil {
			t.Errorf("writer %d: %v, %v", i, created, err)
		}
	}
}

func TestAStoreThatIsAwayIsProbedAgainUntilItIsBack(t *testing.T) {
	setCredentials(t)
	synctest.Test(t, func(t *testing.T) {
		network := newStandIn(t)
		var away atomic.Bool
		away.Store(true)
		network.intercept = func(*http.Request, []byte) *http.Response {
			if away.Load() {
				return broken()
			}
			return nil
		}
		store, logged, err := openWith(t, "s3://bucket/x?endpoint=http://store:9000", network)
		if err != nil || !strings.Contains(logged.String(), "cannot be reached") {
			t.Fatalf("%v, logged:\n%s", err, logged)
		}
		network.begin("x/old", 7*time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- store.Run(ctx) }()
		time.Sleep(5 * time.Minute)
		if store.probed.Load() {
			t.Error("a store that is away passed the probe")
		}
		away.Store(false)
		time.Sleep(time.Minute)
		if !store.probed.Load() || network.uploadsLeft() != 0 {
			t.Errorf("probed: %v, stale uploads: %d", store.probed.Load(), network.uploadsLeft())
		}
		network.begin("x/later", 0)
		time.Sleep(5 * time.Hour)
		if network.uploadsLeft() != 1 {
			t.Error("an upload was aborted before it was stale")
		}
		time.Sleep(3 * time.Hour)
		if network.uploadsLeft() != 0 {
			t.Error("an upload that became stale was not aborted")
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestADirectoryIsOpenedByItsURL(t *testing.T) {
	fsys := vfs.NewMem()
	store, err := Open(t.Context(), "file:///data/a%20bucket", Dependencies{Logger: slog.New(slog.DiscardHandler),
		Registerer: prometheus.NewRegistry(), FS: fsys, Rand: rand.New(rand.NewPCG(1, 2))})
	if err != nil {
		t.Fatal(err)
	}
	if err := putString(t.Context(), store, "a/key", "text"); err != nil {
		t.Fatal(err)
	}
	if data, err := vfs.ReadFile(fsys, "/data/a bucket/a/key"); string(data) != "text" || err != nil {
		t.Errorf("the file holds %q, %v", data, err)
	}
	_, err = store.Stat(t.Context(), "missing")
	if err == nil || err.Error() != "stat file:///data/a bucket/missing: not found" {
		t.Errorf("%v", err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

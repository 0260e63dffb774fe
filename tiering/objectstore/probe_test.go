package objectstore

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestAProbeTellsWhatTheBucketDoesByItself(t *testing.T) {
	setCredentials(t)
	for _, scheme := range []string{schemeS3, schemeMinio} {
		t.Run(scheme, func(t *testing.T) {
			network := newStandIn(t)
			network.versioning = "<Status>Enabled</Status>"
			network.lifecycle = `<Rule><ID>tidy</ID><Status>Enabled</Status><Filter><Prefix></Prefix></Filter>
				<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload></Rule>
				<Rule><ID>forget</ID><Status>Enabled</Status><Filter><Prefix>own/</Prefix></Filter>
				<Expiration><Days>30</Days></Expiration></Rule>
				<Rule><ID>freeze</ID><Status>Enabled</Status><Prefix>own/folder/cold</Prefix>
				<Transition><Days>30</Days><StorageClass>GLACIER</StorageClass></Transition></Rule>
				<Rule><ID>not ours</ID><Status>Enabled</Status><Filter><Prefix>others/</Prefix></Filter>
				<Expiration><Days>1</Days></Expiration></Rule>
				<Rule><ID>off</ID><Status>Disabled</Status><Filter><Prefix></Prefix></Filter>
				<Expiration><Days>1</Days></Expiration></Rule>`
			_, logged, err := openWith(t, scheme+"://bucket/own/folder?endpoint=http://store:9000", network)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"keeps old versions", "aborts multipart uploads", "rule=tidy", "HISTORY WILL BE LOST",
				"rule=forget", "another storage class", "rule=freeze"} {
				if !strings.Contains(logged.String(), want) {
					t.Errorf("%q was not logged", want)
				}
			}
			for _, unwanted := range []string{"not ours", "rule=off"} {
				if strings.Contains(logged.String(), unwanted) {
					t.Errorf("%q was logged", unwanted)
				}
			}
			if t.Failed() {
				t.Log(logged)
			}
		})
	}
}

// A bucket of which nothing may be asked is used all the same.
func TestABucketThatDoesNotTellOfItsRulesIsUsed(t *testing.T) {
	setCredentials(t)
	network := newStandIn(t)
	network.intercept = func(request *http.Request, _ []byte) *http.Response {
		if query := request.URL.Query(); query.Has("versioning") || query.Has("lifecycle") {
			return refusal(501, "NotImplemented", "x")
		}
		return nil
	}
	if _, logged, err := openWith(t, "s3://bucket?endpoint=http://store:9000", network); err != nil || logged.String() != "" {
		t.Errorf("%v, logged:\n%s", err, logged)
	}
}

func TestAProbeTellsOfClocksThatDiffer(t *testing.T) {
	setCredentials(t)
	for _, test := range []struct {
		ahead   time.Duration
		refused bool
		want    string
	}{
		{time.Minute, false, ""},
		{7 * time.Minute, false, "clock is 7m0s behind the store's"},
		{-8 * time.Minute, false, "clock is 8m0s ahead of the store's"},
		{time.Hour, true, "behind the store's); set the clocks (NTP)"},
	} {
		t.Run(test.ahead.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := newStandIn(t)
				network.clock = test.ahead
				if test.refused {
					network.intercept = func(*http.Request, []byte) *http.Response {
						return refusal(403, "RequestTimeTooSkewed", "The difference between the request time and the server's time is "+
							"too large.")
					}
				}
				_, logged, err := openWith(t, "minio://bucket?endpoint=http://store:9000", network)
				if err != nil || !strings.Contains(logged.String(), test.want) || (test.want == "") != (logged.String() == "") {
					t.Errorf("%v, logged:\n%s", err, logged)
				}
			})
		})
	}
}

// What is counted is what is paid for: the requests that operations consist of.
func TestRequestsAreCountedAsTheyAreBilled(t *testing.T) {
	setCredentials(t)
	network := newStandIn(t)
	registry := prometheus.NewRegistry()
	store, err := open(t.Context(), "s3://bucket?endpoint=http://store:9000",
		testDependencies(&lines{}, network, registry), NewDirectory)
	if err != nil {
		t.Fatal(err)
	}
	store.s3.maxSinglePutBytes, store.s3.partBytes = 64<<10, 16<<10
	text := strings.Repeat("0123456789", 7<<10) // five parts
	if err := putString(t.Context(), store, "large", text); err != nil {
		t.Fatal(err)
	}
	if err := putString(t.Context(), store, "small", "text"); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Stat(t.Context(), "small"); err != nil {
		t.Error(err)
	}
	if err := store.List(t.Context(), "", "", func(ObjectInfo) error { return nil }); err != nil {
		t.Error(err)
	}
	if err := store.Delete(t.Context(), "large", "small"); err != nil {
		t.Error(err)
	}
	if _, err := store.AbortStaleUploads(t.Context(), time.Hour); err != nil {
		t.Error(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "firn_objectstore_http_requests_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "request" {
					got[label.GetValue()] = metric.GetCounter().GetValue()
				}
			}
		}
	}
	for request, want := range map[string]float64{"create_upload": 1, "upload_part": 5, "complete_upload": 1,
		"put_object": 1, "head_object": 1, "list_objects": 1, "delete_objects": 1, "list_uploads": 1} {
		if got[request] != want {
			t.Errorf("%v %s, want %v", got[request], request, want)
		}
	}
}

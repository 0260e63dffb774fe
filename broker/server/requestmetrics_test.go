package server

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/network"
)

func TestQuantilesAreCloseToWhatWasRecorded(t *testing.T) {
	var d distribution
	for v := range int64(1 << 17) {
		d.record(v)
	}
	s := d.sample()
	if s.count != 1<<17 || s.sum != (1<<17-1)<<16 {
		t.Errorf("%d values, sum %d", s.count, s.sum)
	}
	for _, q := range quantiles {
		got, known := s.quantile(q, nil)
		if want := q * (1 << 17); !known || math.Abs(got-want) > want/8 {
			t.Errorf("quantile %v is %v", q, got)
		}
	}
	before := d.sample()
	if _, known := before.quantile(0.5, before); known {
		t.Error("there is a quantile of nothing")
	}
	for range 10 {
		d.record(7)
	}
	if got, _ := d.sample().quantile(0.5, before); math.Abs(got-7) > 1 {
		t.Errorf("of what came since, the median is %v", got)
	}
	d.record(-5)
	d.record(math.MaxInt64)
	if got, _ := d.sample().quantile(1, nil); got < 1<<largestOctave {
		t.Errorf("the largest is %v", got)
	}
}

func TestBucketsFollowEachOther(t *testing.T) {
	for bucket := range bucketCount - 1 {
		lower := lowerBound(bucket)
		if got := bucketOf(uint64(lower)); got != bucket {
			t.Errorf("the lower bound of bucket %d, %v, lies in bucket %d", bucket, lower, got)
		}
		if got := bucketOf(uint64(lowerBound(bucket+1)) - 1); got != bucket {
			t.Errorf("the last value of bucket %d lies in bucket %d", bucket, got)
		}
	}
	var d distribution
	for _, v := range []int64{10, 63, 64, 100, 255, 256, 1 << 30} {
		d.record(v)
	}
	counts := d.sample().histogram()
	if counts[64e-6] != 2 || counts[256e-6] != 5 || counts[math.Ldexp(1e-6, 24)] != 6 {
		t.Errorf("%v", counts)
	}
}

// scraped is one series of a scrape: a counter, or a summary.
type scraped struct {
	value  float64
	count  uint64
	sum    float64
	median float64
}

// series are those of a scrape whose names begin in some way, by name and labels.
func (r *running) series(t *testing.T, prefix string) map[string]scraped {
	t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]scraped{}
	for _, family := range families {
		name, ours := strings.CutPrefix(family.GetName(), prefix)
		if !ours {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := ""
			for _, label := range metric.GetLabel() {
				labels += " " + label.GetValue()
			}
			one := scraped{
				value: metric.GetCounter().GetValue(),
				count: metric.GetSummary().GetSampleCount(), sum: metric.GetSummary().GetSampleSum(),
			}
			if of := metric.GetSummary().GetQuantile(); len(of) > 0 && of[0].GetQuantile() == 0.5 {
				one.median = of[0].GetValue()
			}
			found[name+labels] = one
		}
	}
	return found
}

func TestTheStagesOfARequestAreToldApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := start(t, network.NewMemory(), func(_ context.Context, req *wire.Request) wire.Reply {
			version, correlationID := req.Version, req.CorrelationID
			time.Sleep(time.Second) // local
			waiting := make(chan struct{})
			time.AfterFunc(10*time.Second, func() { close(waiting) })
			return wire.Reply{Wait: waiting, Finish: func() *wire.Response { // remote
				return wire.EncodeFetchResponse(version, correlationID, &wire.FetchResponse{
					Topics: []wire.FetchTopicResponse{{Partitions: []wire.FetchPartitionResponse{
						{ErrorCode: kafka.OffsetOutOfRange},
						{Records: wire.Chunk{Bytes: make([]byte, 8<<20)}},
					}}},
				})
			}}
		})
		client := server.dial()
		client.send(requestOf(wire.KeyFetch, 12, 1))
		time.Sleep(31 * time.Second) // the answer is taken late
		client.expect(1)
		synctest.Wait()
		series := server.series(t, "kafka_network_requestmetrics_")
		for name, want := range map[string]float64{
			"localtimems": 1000, "remotetimems": 10_000, "responsesendtimems": 20_000, "totaltimems": 31_000,
			"requestqueuetimems": 0, "responsequeuetimems": 0, "throttletimems": 0, "requestbytes": 12,
		} {
			got := series[name+" Fetch"]
			if got.count != 1 || math.Abs(got.sum-want) > want/100+1 || math.Abs(got.median-want) > want/4+1 {
				t.Errorf("%s: %+v, want one of about %v", name, got, want)
			}
		}
		for name, want := range map[string]float64{
			"requests_total Fetch 12": 1, "requests_total FetchConsumer 12": 1,
			"errors_total NONE Fetch": 2, "errors_total OFFSET_OUT_OF_RANGE Fetch": 1,
		} {
			if got := series[name].value; got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		for name := range series {
			if strings.Contains(name, "Produce") {
				t.Errorf("nobody has produced, and there is %s", name)
			}
		}
	})
}

// Whoever asks once a minute learns of the last minutes, not of all time.
func TestQuantilesForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		delay := time.Second
		server := start(t, network.NewMemory(), func(_ context.Context, req *wire.Request) wire.Reply {
			time.Sleep(delay)
			return wire.Reply{Response: text(req, "answer")}
		})
		client := server.dial()
		median := func(requests int32) float64 {
			for i := range requests {
				client.send(request(i))
				client.expect(i)
			}
			synctest.Wait()
			return server.series(t, "kafka_network_requestmetrics_")["totaltimems Metadata"].median
		}
		if got := median(200); got < 800 || got > 1200 {
			t.Errorf("the median is %v ms", got)
		}
		delay = time.Millisecond
		got := 0.0
		for range 3 {
			time.Sleep(quantileWindow)
			got = median(10)
		}
		if got > 2 {
			t.Errorf("three minutes after the last slow request the median is %v ms", got)
		}
	})
}

func TestRequestsWithoutAnAnswerAreCountedWithTheirErrors(t *testing.T) {
	server := start(t, network.TCP(), func(_ context.Context, req *wire.Request) wire.Reply {
		reply := wire.Reply{None: true}
		if req.CorrelationID == 2 {
			reply.Close = errTest
			reply.Response = wire.EncodeProduceResponse(9, 2, &wire.ProduceResponse{Topics: []wire.ProduceTopicResponse{
				{Partitions: []wire.ProducePartitionResponse{{ErrorCode: kafka.NotLeaderOrFollower}}},
			}})
		}
		return reply
	})
	client := server.dial()
	client.send(produceFrame(100), requestOf(wire.KeyProduce, 9, 2))
	client.expectClosed()
	server.stop()
	series := server.series(t, "kafka_network_requestmetrics_")
	if got := series["totaltimems Produce"].count; got != 2 {
		t.Errorf("%d requests were counted", got)
	}
	if got := series["errors_total NOT_LEADER_OR_FOLLOWER Produce"].value; got != 1 {
		t.Errorf("%v errors were counted", got)
	}
}

// What clients can send must not make series: codes and versions nobody has heard of share one.
func TestSeriesOfRequestsAreBounded(t *testing.T) {
	server := start(t, network.TCP(), func(_ context.Context, req *wire.Request) wire.Reply {
		body := wire.ProduceResponse{Topics: []wire.ProduceTopicResponse{{
			Partitions: make([]wire.ProducePartitionResponse, 300),
		}}}
		for i := range body.Topics[0].Partitions {
			body.Topics[0].Partitions[i].ErrorCode = kafka.Errno(i)
		}
		return wire.Reply{Response: wire.EncodeProduceResponse(9, req.CorrelationID, &body)}
	})
	client := server.dial()
	for i := range int32(50) {
		client.send(requestOf(wire.KeyApiVersions, int16(100+i), i))
		client.expect(i)
	}
	series := server.series(t, "kafka_network_requestmetrics_")
	if got := series["requests_total ApiVersions unsupported"].value; got != 50 {
		t.Errorf("%v requests of unknown versions", got)
	}
	if len(series) > 400 {
		t.Errorf("%d series of one API", len(series))
	}
}

var _ prometheus.Collector = (*requestCollector)(nil)

func BenchmarkScrape(b *testing.B) {
	c := newRequestCollector()
	for i, api := range wire.APIs() {
		m := newAPIMetrics(api)
		m.versions[0].Add(1)
		m.total.record(int64(i))
		c.add(api.Name, m)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	for b.Loop() {
		if _, err := registry.Gather(); err != nil {
			b.Fatal(fmt.Errorf("scrape: %w", err))
		}
	}
}

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/firnlog/firn/broker/admin/view"
	"github.com/firnlog/firn/integration/bench/replay"
	"github.com/firnlog/firn/integration/bench/report"
	"github.com/firnlog/firn/integration/launch"
)

// firnTiered is a node with an S3 server as its bucket.
const firnTiered brokerKind = "firn-tiered"

func tierRows() []entry {
	row := func(r report.Row, store storeIs, run func(*bench, context.Context, *tier) (report.Result, error)) entry {
		r.Section, r.Class = "History", "A"
		return entry{Row: r, run: func(ctx context.Context, b *bench) (report.Result, error) {
			t, err := b.startTier(ctx, store)
			if err != nil {
				return report.Result{}, err
			}
			result, err := run(b, ctx, t)
			return result, errors.Join(err, t.close(b))
		}}
	}
	const bulkIs = "A topic of one partition is read in bulk, eight splits of 8 MiB at a time, from an S3 server"
	entries := []entry{
		row(report.Row{
			Name: "bulk-1", Seconds: 100, ByName: true, // here the processor is the limit
			What: bulkIs + "; the same server is read with ranges of 8 MiB by eight readers. Both are on the broker's " +
				"processor",
			Subject: "bulk read", Base: "raw GET", Metrics: []report.Metric{report.Rate},
		}, storeIs{}, (*bench).bulkRow),
		row(report.Row{
			Name: "bulk-slow-1", Seconds: 100,
			What: bulkIs + " " + slowStoreIs + "; the same server is read with ranges of 8 MiB by eight readers. Both are " +
				"on the broker's processor",
			Subject: "bulk read", Base: "raw GET", Metrics: []report.Metric{report.Rate},
			Goals: []report.Goal{{Metric: report.Rate, Value: 0.9}},
		}, storeIs{slow: true}, (*bench).bulkRow),
		row(report.Row{
			Name: "cold-replay", Seconds: 120,
			What: "Four consumers read partitions that lie in an S3 server only; the same server is read with ranges of " +
				"4 MiB by four readers on the broker's processor",
			Subject: "replay", Base: "raw GET", Metrics: []report.Metric{report.Rate},
		}, storeIs{}, func(b *bench, ctx context.Context, t *tier) (report.Result, error) {
			return b.coldRow(ctx, t, tierPartitions, tierPartitions)
		}),
		row(report.Row{
			Name: "upload", Seconds: 200, ByName: true, // here the broker's processor is the limit
			What: "Segments of 64 MiB of four partitions are copied to an S3 server; objects of 64 MiB are put into the " +
				"same server, four at a time, from the broker's processor",
			Subject: "upload", Base: "raw PUT", Metrics: []report.Metric{report.Rate},
		}, storeIs{}, (*bench).uploadRow),
		row(report.Row{
			Name: "slow-upload", Seconds: 200,
			What: "Segments of 64 MiB of four partitions are copied to an S3 server " + slowStoreIs + "; objects of 64 MiB " +
				"are put into the same server, four at a time, from the broker's processor",
			Subject: "upload", Base: "raw PUT", Metrics: []report.Metric{report.Rate},
			Goals: []report.Goal{{Metric: report.Rate, Value: 0.9}},
		}, storeIs{slow: true}, (*bench).uploadRow),
		row(report.Row{
			Name: "hot-beside-replay", Seconds: 200, ByName: true, // here the broker's processor is the limit
			What:    "Requests of 16 KiB at 10 MB/s, while four consumers read from an S3 server as fast as they can",
			Subject: "with the replay", Base: "without", Metrics: latencyMetrics(),
		}, storeIs{aside: true}, (*bench).hotBesideRow),
		row(report.Row{
			Name: "hot-beside-slow-replay", Seconds: 200,
			What: "Requests of 16 KiB at 10 MB/s, while four consumers read as fast as they can from an S3 server " +
				slowStoreIs,
			Subject: "with the replay", Base: "without", Metrics: latencyMetrics(),
			Goals: []report.Goal{{Metric: report.P99, AtMost: true, Value: 1.1}},
		}, storeIs{slow: true, aside: true}, (*bench).hotBesideRow),
		row(report.Row{
			Name: "cold-first-byte", Seconds: 60,
			What: "One consumer fetches 128 KiB from a place that was not read before, again and again, from an S3 server " +
				slowStoreIs + "; one reader gets a range of 4 MiB of it at a time, on the broker's processor",
			Subject: "fetch", Base: "raw GET", Metrics: []report.Metric{report.P50, report.P99},
		}, storeIs{slow: true}, (*bench).firstByteRow),
	}
	for _, partitions := range []int{1, 4, 16} {
		entries = append(entries, row(report.Row{
			Name: fmt.Sprintf("cold-slow-replay-%d", partitions), Seconds: 100,
			What: fmt.Sprintf("A consumer for each of %d partitions that lie only in an S3 server %s; the same server is read "+
				"with ranges of 4 MiB by as many readers as the broker has (%d), on its processor", partitions, slowStoreIs,
				tierReaders),
			Subject: "replay", Base: "raw GET", Metrics: []report.Metric{report.Rate},
			Goals: []report.Goal{{Metric: report.Rate, Value: 0.9}},
		}, storeIs{slow: true}, func(b *bench, ctx context.Context, t *tier) (report.Result, error) {
			return b.coldRow(ctx, t, partitions, tierReaders)
		}))
	}
	return entries
}

// slowStoreIs says in words what a slowStore is.
const slowStoreIs = "that answers each request 30 ms later and all of them with 200 MB/s"

// storeIs is how the object store of a row is started.
type storeIs struct {
	slow  bool // behind a slowStore
	aside bool // at the lowest priority: something that shares its processor is timed
}

// tier is a node with its bucket.
type tier struct {
	*running
	server *launch.Broker
	slow   *assistant // nil: the server is reached right away
	folder string     // in the bucket
}

const (
	tierPartitions = 4
	tierReaders    = 10 // remote.log.reader.threads
)

// url names a folder of the server as it is to be reached.
func (t *tier) url(folder string) string {
	server := *t.server
	if t.slow != nil {
		server.Address = t.slow.says
	}
	return launch.S3URL(&server, folder)
}

// startTier starts an S3 server on the client's processor and a node on the broker's. The node has no disk cache, since
// rows read the same again and again, and all but the first time it would come from there.
func (b *bench) startTier(ctx context.Context, store storeIs) (*tier, error) {
	b.stopAll()
	if _, err := os.Stat(b.options.versitygw); err != nil {
		return nil, fmt.Errorf("-versitygw: %w; `make versitygw` builds it", err)
	}
	dir, err := b.folder("s3")
	if err != nil {
		return nil, err
	}
	// The processor of this process is inherited.
	server, err := launch.S3{Binary: b.options.versitygw, Dir: dir, CPU: launch.AnyCPU, Nice: store.aside}.Start(ctx)
	if err != nil {
		return nil, err
	}
	t := &tier{server: server, folder: "firn"}
	b.beside = append(b.beside, server.PID)
	if store.slow {
		if t.slow, err = assist(ctx, store.aside, assistance{SlowStore: server.Address}); err != nil {
			return nil, errors.Join(err, t.close(b))
		}
		b.beside = append(b.beside, t.slow.cmd.Process.Pid)
	}
	data, err := b.folder(string(firnTiered))
	if err != nil {
		return nil, errors.Join(err, t.close(b))
	}
	node := b.firn(data, []string{
		"firn.log.flush.policy=os", "firn.object.store=" + t.url(t.folder), "firn.tier.cache.bytes=0",
		"log.retention.check.interval.ms=200", "remote.log.manager.task.interval.ms=200",
	})
	node.Env = launch.S3Environment()
	started, err := node.Start(ctx)
	if err == nil {
		t.running, err = connect(started, firnTiered)
	}
	if err != nil {
		return nil, errors.Join(err, t.close(b))
	}
	b.brokers[firnTiered] = t.running
	return t, nil
}

func (t *tier) close(b *bench) error {
	b.stopAll()
	b.beside = nil
	var err error
	if t.slow != nil {
		err = t.slow.stop()
	}
	t.server.Kill()
	return errors.Join(err, os.RemoveAll(t.server.Dir))
}

const tierSegmentBytes = 64 << 20

// fillCold makes a topic that has sunk but for its active segments, and returns how to read what has.
func (b *bench) fillCold(ctx context.Context, t *tier, partitions int) (replay.Fetch, error) {
	batch, err := b.events.Encode(largeShape(), time.Now().UnixMilli(), 1)
	if err != nil {
		return replay.Fetch{}, err
	}
	topic, err := b.topic(ctx, t.running, partitions, map[string]string{
		"remote.storage.enable": "true", "local.retention.ms": "1", "segment.bytes": fmt.Sprint(tierSegmentBytes),
	})
	if err != nil {
		return replay.Fetch{}, err
	}
	if err := t.fill(ctx, topic, partitions, batch, b.tierBatches(batch, partitions)); err != nil {
		return replay.Fetch{}, err
	}
	sunk, err := t.await(ctx, topic, partitions, func(p view.TierPartition) bool {
		return p.Segments > 0 && p.LocalStart == p.End && p.UploadLagBytes == 0
	})
	if err != nil {
		return replay.Fetch{}, err
	}
	remote := sunk[0].End
	for _, p := range sunk {
		remote = min(remote, p.End)
	}
	return replay.Fetch{
		Address: t.Address, Topic: topic, Consumers: partitions, Batch: batch, Batches: remote / batch.Records,
		MaxBytes: 1 << 20, Patient: true,
	}, t.sync()
}

// tierBatches are so many that each partition has some segments, and all together far more than a cache.
func (b *bench) tierBatches(batch replay.Batch, partitions int) int64 {
	return max(int64(4e9*b.options.effort.scale)/int64(partitions), 2*tierSegmentBytes) / int64(len(batch.Data))
}

func (b *bench) coldRow(ctx context.Context, t *tier, partitions, readers int) (report.Result, error) {
	fetch, err := b.fillCold(ctx, t, partitions)
	if err != nil {
		return report.Result{}, err
	}
	raw := side{run: func(ctx context.Context, bytes int64) (int64, report.Values, error) {
		return b.raw(ctx, rawWork{Store: t.url(t.folder), Bytes: bytes, Workers: readers})
	}}
	return b.compare(ctx, comparison{subject: *fetchSide(t.running, fetch), base: &raw, steady: report.Rate})
}

// bulkRow reads what one partition has in the bucket without asking the broker.
func (b *bench) bulkRow(ctx context.Context, t *tier) (report.Result, error) {
	const readers, rangeBytes = 8, 8 << 20
	fetch, err := b.fillCold(ctx, t, 1)
	if err != nil {
		return report.Result{}, err
	}
	read := func(work rawWork) side {
		work.Store, work.Workers, work.GetBytes = t.url(t.folder), readers, rangeBytes
		return side{run: func(ctx context.Context, bytes int64) (int64, report.Values, error) {
			work.Bytes = bytes
			return b.raw(ctx, work)
		}}
	}
	raw := read(rawWork{})
	return b.compare(ctx, comparison{subject: read(rawWork{Bulk: fetch.Topic}), base: &raw, steady: report.Rate})
}

// firstByteRow reads single places, most of which are in no memory.
func (b *bench) firstByteRow(ctx context.Context, t *tier) (report.Result, error) {
	fetch, err := b.fillCold(ctx, t, 1)
	if err != nil {
		return report.Result{}, err
	}
	fetch.MaxBytes, fetch.Random = 128<<10, rand.New(rand.NewPCG(1, 1))
	raw := side{run: func(ctx context.Context, bytes int64) (int64, report.Values, error) {
		return b.raw(ctx, rawWork{Store: t.url(t.folder), Bytes: bytes, Workers: 1})
	}}
	return b.compare(ctx, comparison{subject: *fetchSide(t.running, fetch), base: &raw, steady: report.P50})
}

func (b *bench) hotBesideRow(ctx context.Context, t *tier) (report.Result, error) {
	fetch, err := b.fillCold(ctx, t, tierPartitions)
	if err != nil {
		return report.Result{}, err
	}
	return b.disturbedRow(ctx, t.running, disturber{run: func(ctx context.Context) error {
		return fetchBeside(ctx, fetch)
	}})
}

// uploadRow copies what had been sealed before the topic was tiered.
func (b *bench) uploadRow(ctx context.Context, t *tier) (report.Result, error) {
	batch, err := b.events.Encode(largeShape(), time.Now().UnixMilli(), 1)
	if err != nil {
		return report.Result{}, err
	}
	raw := side{run: func(ctx context.Context, bytes int64) (int64, report.Values, error) {
		return b.raw(ctx, rawWork{
			Store: t.url("raw"), Bytes: bytes, Workers: tierPartitions, PutBytes: tierSegmentBytes,
		})
	}}
	var topic string
	upload := side{
		broker: t.running,
		before: func(ctx context.Context) (err error) {
			topic, err = b.topic(ctx, t.running, tierPartitions, map[string]string{
				"segment.bytes": fmt.Sprint(tierSegmentBytes), "remote.storage.enable": "false", // until it is timed
			})
			if err == nil {
				err = t.fill(ctx, topic, tierPartitions, batch, b.tierBatches(batch, tierPartitions))
			}
			return errors.Join(err, t.sync())
		},
		run: func(ctx context.Context, _ int64) (int64, report.Values, error) {
			began := time.Now()
			changes := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "remote.storage.enable", Value: kadm.StringPtr("true")}}
			if _, err := t.admin.AlterTopicConfigs(ctx, changes, topic); err != nil {
				return 0, nil, err
			}
			copied, err := t.await(ctx, topic, tierPartitions, func(p view.TierPartition) bool {
				return p.Segments > 0 && p.UploadLagBytes == 0
			})
			if err != nil {
				return 0, nil, err
			}
			took, done := time.Since(began), int64(0)
			for _, p := range copied {
				done += p.Bytes
			}
			return done, report.Values{report.Rate: float64(done) / 1e6 / took.Seconds()}, nil
		},
		after: func(ctx context.Context) error { return t.drop(ctx, topic) },
	}
	return b.compare(ctx, comparison{subject: upload, base: &raw, steady: report.Rate})
}

// await asks for the state of a topic's partitions until all of them are as they should be.
func (t *tier) await(
	ctx context.Context, topic string, partitions int, holds func(view.TierPartition) bool,
) (found []view.TierPartition, err error) {
	err = eventually(ctx, 5*time.Minute, func(ctx context.Context) error {
		status, err := t.status(ctx)
		if err != nil {
			return err
		}
		found = nil
		for _, p := range status.Partitions {
			if p.Topic == topic && holds(p) {
				found = append(found, p)
			}
		}
		if len(found) < partitions {
			return fmt.Errorf("%d of %d partitions of %s are in the bucket", len(found), partitions, topic)
		}
		return nil
	})
	return found, err
}

func (t *tier) status(ctx context.Context) (status view.TierStatus, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+t.HTTP+view.PathTier, nil)
	if err != nil {
		return status, err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return status, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return status, fmt.Errorf("%s is answered with %s", view.PathTier, response.Status)
	}
	return status, json.NewDecoder(response.Body).Decode(&status)
}

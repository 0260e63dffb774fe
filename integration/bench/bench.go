//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sys/unix"

	"github.com/firnlog/firn/integration/bench/replay"
	"github.com/firnlog/firn/integration/bench/report"
	"github.com/firnlog/firn/integration/launch"
)

// bench is a run of some rows.
type bench struct {
	options options
	events  replay.Events
	out     io.Writer
	dir     string // everything that is written, but for the results
	began   time.Time
	brokers map[brokerKind]*running
	beside  []int // processes that belong to a row, besides the brokers
	topics  int   // made until now; each has a name of its own
	folders int
	// foreign is what others used of the machine during each measurement of the row.
	foreign []float64
}

// brokerKind names a broker that rows share.
type brokerKind string

const (
	apacheKafka brokerKind = "kafka"
	// firnOS is in durability class A, firnAuto is what a user gets.
	firnOS   brokerKind = "firn-os"
	firnAuto brokerKind = "firn-auto"
)

// running is a broker with a client of it.
type running struct {
	*launch.Broker
	kind   brokerKind
	client *kgo.Client
	admin  *kadm.Client
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.out, "%6.0f s  %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}

// row runs a row. What goes wrong is its result.
func (b *bench) row(ctx context.Context, e entry) report.Result {
	began := time.Now()
	b.foreign = nil
	result, err := e.run(ctx, b)
	if err != nil {
		result.Failed = b.anonymous(err)
		b.stopAll() // whatever state they are in
	}
	result.Taken, result.Seconds = began.UTC().Format(time.DateOnly), time.Since(began).Round(time.Second).Seconds()
	if foreign, ok := report.SpreadOf(b.foreign); ok {
		result.Foreign = foreign.Median
	}
	return result
}

// anonymous is an error as a page can show it, without the paths of this machine.
func (b *bench) anonymous(err error) string {
	o := b.options
	paths := strings.NewReplacer(b.dir, "DIR", o.firn, "firn", o.kafkaLib, "LIB", o.versitygw, "versitygw")
	text := paths.Replace(err.Error())
	const shown = 400 // the end of a log says more than its begin
	if len(text) > shown {
		text = text[:shown/2] + " … " + text[len(text)-shown/2:]
	}
	return strings.ToValidUTF8(text, "")
}

// folder is a new one.
func (b *bench) folder(name string) (string, error) {
	b.folders++
	dir := filepath.Join(b.dir, name+"-"+strconv.Itoa(b.folders))
	return dir, os.Mkdir(dir, 0o755)
}

// broker is one that is shared between rows; it is started when it is first asked for.
func (b *bench) broker(ctx context.Context, kind brokerKind) (*running, error) {
	if r, ok := b.brokers[kind]; ok {
		return r, nil
	}
	dir, err := b.folder(string(kind))
	if err != nil {
		return nil, err
	}
	r, err := b.start(ctx, kind, dir)
	if err != nil {
		return nil, err
	}
	b.brokers[kind] = r
	return r, nil
}

// start starts a broker of a kind on the data in a folder.
func (b *bench) start(ctx context.Context, kind brokerKind, dir string, settings ...string) (*running, error) {
	var started *launch.Broker
	var err error
	switch kind {
	case apacheKafka:
		started, err = b.kafka(dir).Start(ctx)
	case firnOS:
		started, err = b.firn(dir, append(settings, "firn.log.flush.policy=os")).Start(ctx)
	default:
		started, err = b.firn(dir, settings).Start(ctx)
	}
	if err != nil {
		return nil, err
	}
	return connect(started, kind)
}

// deleteSoon makes the files of a topic go soon after the topic. Kafka asks itself that often what is to be deleted.
const deleteSoon = "log.segment.delete.delay.ms=500"

func (b *bench) firn(dir string, settings []string) launch.Firn {
	return launch.Firn{
		Binary: b.options.firn, Dir: dir, CPU: b.options.brokerCPU, Settings: append([]string{deleteSoon}, settings...),
	}
}

func (b *bench) kafka(dir string) launch.Kafka {
	return launch.Kafka{
		Lib: b.options.kafkaLib, Dir: dir, CPU: b.options.brokerCPU, Java: launch.StartScript(),
		// A node alone cannot have the three replicas of the defaults.
		Settings: []string{deleteSoon, "offsets.topic.replication.factor=1", "group.initial.rebalance.delay.ms=0",
			"transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1"},
	}
}

func connect(started *launch.Broker, kind brokerKind) (*running, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(started.Address))
	if err != nil {
		started.Kill()
		return nil, err
	}
	return &running{Broker: started, kind: kind, client: client, admin: kadm.NewClient(client)}, nil
}

// stop ends the broker; its data stays.
func (r *running) stop() error {
	r.client.Close()
	return r.Stop()
}

func (r *running) kill() {
	r.client.Close()
	r.Kill()
}

// stopAll ends the shared brokers and removes their data: rows that need the machine or the disk for themselves do so,
// and those after a failure.
func (b *bench) stopAll() {
	for kind, r := range b.brokers {
		r.kill()
		if err := os.RemoveAll(r.Dir); err != nil {
			b.say("remove the data of %s: %v", kind, err)
		}
		delete(b.brokers, kind)
	}
}

func (b *bench) close() {
	b.stopAll()
	if err := os.RemoveAll(b.dir); err != nil {
		b.say("remove %s: %v", b.dir, err)
	}
}

// topic creates one with a name that was never used, and waits until the broker serves all of it.
func (b *bench) topic(ctx context.Context, r *running, partitions int, settings map[string]string) (string, error) {
	b.topics++
	name := "bench-" + strconv.Itoa(b.topics)
	return name, r.createTopic(ctx, name, partitions, settings)
}

func (r *running) createTopic(ctx context.Context, name string, partitions int, settings map[string]string) error {
	values := map[string]*string{}
	for key, value := range settings {
		values[key] = &value
	}
	if _, err := r.admin.CreateTopic(ctx, int32(partitions), 1, values, name); err != nil {
		return fmt.Errorf("create %s on %s: %w", name, r.Name, err)
	}
	return eventually(ctx, time.Minute, func(ctx context.Context) error {
		ends, err := r.admin.ListEndOffsets(ctx, name)
		if err != nil {
			return err
		}
		return ends.Error()
	})
}

// drop deletes a topic, and returns when its files are gone and what else was written is on disk: one run's writing
// back must not be the next one's disturbance.
func (r *running) drop(ctx context.Context, topic string) error {
	if _, err := r.admin.DeleteTopic(ctx, topic); err != nil {
		return fmt.Errorf("delete %s on %s: %w", topic, r.Name, err)
	}
	err := eventually(ctx, time.Minute, func(context.Context) error {
		left, err := r.folders(topic)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%s has not removed %s", r.Name, left[0])
		}
		return err
	})
	if err != nil {
		return err
	}
	return r.sync()
}

// folders are those of a topic's partitions.
func (r *running) folders(topic string) ([]string, error) {
	return filepath.Glob(filepath.Join(r.logDir(), topic+"-*"))
}

func (r *running) logDir() string {
	if r.kind == apacheKafka {
		return filepath.Join(r.Dir, "logs")
	}
	return filepath.Join(r.Dir, "data", "log")
}

// sync writes back all of the file system.
func (r *running) sync() error {
	dir, err := os.Open(r.Dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	return unix.Syncfs(int(dir.Fd()))
}

// eventually asks again and again until there is no error, or a time is over: then it is the last one's.
func eventually(ctx context.Context, within time.Duration, attempt func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		err := attempt(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

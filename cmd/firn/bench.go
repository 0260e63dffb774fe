package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/firnlog/firn/cmd/firn/bench"
	"github.com/firnlog/firn/cmd/firn/demo"
)

func benchCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "bench",
		Short: "Measure what clients of a cluster get: produce, consume, end to end",
		Long: "Measure what clients of a Kafka cluster get.\n\n" +
			"With --rate, records are due at fixed times whoever is late, and latency counts from when a record was due.\n" +
			"Without, each client sends as fast as it goes; latency then counts from the call, and most of it is the time\n" +
			"that records wait in the client's own buffer. Megabytes are 1 000 000 bytes of keys and values.\n\n" +
			"The client takes processor time, too: put it on another machine, or on cores of its own, before you compare.",
	},
		benchProduceCommand(),
		benchConsumeCommand(),
		benchEndToEndCommand(),
	)
}

const (
	// defaultBenchDuration is how long a run takes that nothing else ends.
	defaultBenchDuration = 10 * time.Second
	// defaultBenchBuffer is Java's buffer.memory: what waits longer in a larger one is no faster.
	defaultBenchBuffer = 32 << 20
	// benchValueBytes and the two bounds are how many different values there are: several batches of the usual size, so
	// that a codec finds none twice, and less than what would take long to make.
	benchValueBytes = 4 << 20
	leastValues     = 16
	mostValues      = 10_000
	maxBenchClients = 1000
	maxBenchKeys    = 10_000_000
	// idempotentInFlight is how many requests a broker keeps apart for an idempotent producer, and Java's default.
	idempotentInFlight = 5
	maxInFlight        = 1000
)

// loadFlags are the flags of what is produced, in bench produce and bench e2e.
type loadFlags struct {
	sendingFlags
	recordBytes byteCount
	rate        rateFlag
	records     int64
	duration    time.Duration
	warmUp      time.Duration
	clients     int
	inFlight    int
	keys        int
	seed        uint64
	noProgress  bool
	rateHelp    string // what no rate means
}

func (l *loadFlags) addFlags(flags *pflag.FlagSet) {
	l.sendingFlags.addFlags(flags)
	setDefault(flags, "buffer-memory", fmt.Sprint(defaultBenchBuffer))
	l.recordBytes = 1 << 10
	flags.VarP(&l.recordBytes, "record-size", "s", "bytes of each record's value")
	flags.Var(&l.rate, "rate", "how much is due a second: 5000 (records), 10MB or 10MiB (of keys and values); "+l.rateHelp)
	flags.Int64VarP(&l.records, "records", "n", 0, "stop after this many records (0: --duration ends it)")
	flags.DurationVarP(&l.duration, "duration", "d", 0, "stop after this time (default 10s, unless --records is given)")
	flags.DurationVar(&l.warmUp, "warm-up", time.Second, "do the same for this long before anything is measured")
	flags.IntVar(&l.clients, "clients", 1, "clients, each with its own connections, which share the rate")
	flags.IntVar(&l.inFlight, "in-flight", idempotentInFlight,
		"requests that a client may have under way to a broker; an idempotent producer always has this many")
	flags.IntVar(&l.keys, "keys", 0, "draw each record's key from this many (0: no keys)")
	flags.Uint64Var(&l.seed, "seed", 1, "of the values, which look like events, and of the keys")
	flags.BoolVar(&l.noProgress, "no-progress", false, "show no progress on a terminal")
}

// setDefault gives a flag another default than the one that its other commands have.
func setDefault(flags *pflag.FlagSet, name, value string) {
	flag := flags.Lookup(name)
	if err := flag.Value.Set(value); err != nil {
		panic(err) // only a mistake in the tree gets here
	}
	flag.DefValue = value
}

// settle fills in what depends on other flags.
func (l *loadFlags) settle(given func(flag string) bool) {
	l.sendingFlags.settle(given)
	if l.records == 0 && !given("duration") {
		l.duration = defaultBenchDuration
	}
}

// check is for what needs no cluster. The smallest record is what the command can use.
func (l *loadFlags) check(smallest int) error {
	switch {
	case l.recordBytes < byteCount(smallest):
		return fmt.Errorf("--record-size must be at least %d", smallest)
	case l.recordBytes > maxBatchBytes:
		return fmt.Errorf("--record-size must be at most %d", maxBatchBytes)
	case l.records < 0:
		return errors.New("--records must not be negative")
	case l.duration < 0 || l.warmUp < 0:
		return errors.New("--duration and --warm-up must not be negative")
	case l.duration == 0 && l.records == 0:
		return errors.New("there is no end: give --duration or --records")
	case l.clients < 1 || l.clients > maxBenchClients:
		return fmt.Errorf("--clients must be between 1 and %d", maxBenchClients)
	case l.inFlight < 1 || l.inFlight > maxInFlight:
		return fmt.Errorf("--in-flight must be between 1 and %d", maxInFlight)
	case l.idempotent && l.inFlight != idempotentInFlight:
		return fmt.Errorf("--in-flight needs --idempotent=false: an idempotent producer has %d", idempotentInFlight)
	case l.keys < 0 || l.keys > maxBenchKeys:
		return fmt.Errorf("--keys must be between 0 and %d", maxBenchKeys)
	}
	return nil
}

// options are those of the clients that produce.
func (l *loadFlags) options() ([]kgo.Opt, error) {
	options, err := l.producerOptions()
	if err == nil && !l.idempotent {
		options = append(options, kgo.MaxProduceRequestsInflightPerBroker(l.inFlight))
	}
	return options, err
}

// keyNames are keys of one length.
func (l *loadFlags) keyNames() [][]byte {
	keys := make([][]byte, l.keys)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "key-%07d", i)
	}
	return keys
}

// load makes what is to be produced, without its clients.
func (l *loadFlags) load(topic string) (bench.Load, error) {
	flights, err := demo.Flights()
	if err != nil {
		return bench.Load{}, err
	}
	count := min(max(benchValueBytes/int(l.recordBytes), leastValues), mostValues)
	load := bench.Load{
		Topic: topic, Seed: l.seed, Keys: l.keyNames(),
		Values:    flights.Values(rand.New(rand.NewPCG(l.seed, uint64(l.recordBytes))), count, int(l.recordBytes)),
		PerSecond: l.perSecond(), WarmUp: l.warmUp, Duration: l.duration, Records: l.records, Timeout: l.timeout,
	}
	return load, nil
}

// payloadBytes are those of a record's key and value.
func (l *loadFlags) payloadBytes() int64 {
	if l.keys > 0 {
		return int64(l.recordBytes) + int64(len("key-0000000"))
	}
	return int64(l.recordBytes)
}

// perSecond is the rate in records; 0 is none.
func (l *loadFlags) perSecond() float64 { return l.rate.records(l.payloadBytes()) }

// fits tells whether a record fits all that it has to go through.
func (l *loadFlags) fits(load *bench.Load, limits *topicLimits, limit topicLimit) error {
	record := &kgo.Record{Topic: load.Topic, Value: load.Values[0]}
	if len(load.Keys) > 0 {
		record.Key = load.Keys[0]
	}
	most := min(int64(limit.maxBytes), int64(cmp.Or(l.batchBytes, maxBatchBytes)))
	size := recordBytes(record)
	if size+batchOverhead <= most && size <= int64(l.bufferBytes) {
		return nil
	}
	return fmt.Errorf("--record-size %d: %w", int64(l.recordBytes), l.explain(limits, record, kerr.MessageTooLarge))
}

// fleet is the clients of a run, and what ends it.
type fleet struct {
	// ctx ends when a client has lost the cluster, or some time after an interrupt: what is under way is given up then.
	ctx      context.Context
	cancel   context.CancelCauseFunc
	brokers  *brokerFlag
	sessions []*session
	unwatch  []func()
}

func newFleet(interrupt context.Context, brokers *brokerFlag) *fleet {
	f := &fleet{brokers: brokers}
	f.ctx, f.cancel = context.WithCancelCause(context.WithoutCancel(interrupt))
	f.unwatch = append(f.unwatch, afterPatience(interrupt, func() { f.cancel(context.Cause(interrupt)) }))
	return f
}

// connect adds a client.
func (f *fleet) connect(interrupt context.Context, options ...kgo.Opt) (*session, error) {
	client, release, err := f.brokers.connectBeyond(interrupt, options...)
	if err != nil {
		return nil, err
	}
	release()
	f.sessions = append(f.sessions, client)
	stop := context.AfterFunc(client.ctx, func() { f.cancel(context.Cause(client.ctx)) })
	f.unwatch = append(f.unwatch, func() { stop() })
	return client, nil
}

// connectAll adds clients that have the same to do.
func (f *fleet) connectAll(interrupt context.Context, options [][]kgo.Opt) ([]*kgo.Client, error) {
	clients := make([]*kgo.Client, 0, len(options))
	for _, its := range options {
		client, err := f.connect(interrupt, its...)
		if err != nil {
			return nil, err
		}
		clients = append(clients, client.Client)
	}
	return clients, nil
}

func (f *fleet) close() {
	for _, stop := range f.unwatch {
		stop()
	}
	for _, client := range f.sessions {
		client.Close()
	}
	f.cancel(nil)
}

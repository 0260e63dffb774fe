package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	defaultBroker = "127.0.0.1:9092"
	defaultPort   = "9092"

	// dialTimeout and pingTimeout keep a wrong address from looking like a hang.
	dialTimeout = 5 * time.Second
	pingTimeout = 10 * time.Second

	// requestRetries and retryTimeout bound administrative requests: enough for a change of leader, not for ever.
	requestRetries = 5
	retryTimeout   = 20 * time.Second

	// unreachablePatience is how long a cluster that was there may be gone before a command gives up: longer than
	// the restart of a broker.
	unreachablePatience = 30 * time.Second

	// interruptPatience is how long an interrupted command waits for the acknowledgement of what it has taken on.
	interruptPatience = 5 * time.Second
)

// brokerFlag is where the Kafka cluster is: -b, or the environment, or this machine.
type brokerFlag struct {
	addresses []string
	patience  time.Duration // how long the cluster may be out of reach; 0 waits for ever
}

func addBrokerFlag(cmd *cobra.Command) *brokerFlag {
	flag := &brokerFlag{patience: unreachablePatience}
	cmd.Flags().StringSliceVarP(&flag.addresses, "brokers", "b", nil,
		"addresses of the cluster, HOST:PORT,… (default $FIRN_BROKERS, $KAFKA_BROKERS or "+defaultBroker+")")
	return flag
}

// seeds are the addresses to try, each with a port.
func (f *brokerFlag) seeds() ([]string, error) {
	addresses := f.addresses
	for _, name := range []string{"FIRN_BROKERS", "KAFKA_BROKERS"} {
		if value := os.Getenv(name); len(addresses) == 0 && value != "" {
			addresses = strings.Split(value, ",")
		}
	}
	if len(addresses) == 0 {
		addresses = []string{defaultBroker}
	}
	seeds := make([]string, 0, len(addresses))
	for _, address := range addresses {
		seed, err := withPort(strings.TrimSpace(address))
		if err != nil {
			return nil, err
		}
		seeds = append(seeds, seed)
	}
	return seeds, nil
}

func withPort(address string) (string, error) {
	if address == "" {
		return "", errors.New("a broker's address is empty: give -b HOST:PORT")
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		// The one fault that is no mistake is a missing port, which IPv6 addresses hide among their colons.
		host, port = strings.Trim(address, "[]"), defaultPort
		if strings.Contains(host, ":") && net.ParseIP(host) == nil {
			return "", fmt.Errorf("%q is not an address: give -b HOST:PORT", address)
		}
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// session is a client that has reached the cluster at least once.
type session struct {
	*kgo.Client
	admin *kadm.Client
	// ctx ends with the command, or when the cluster has been out of reach for too long; context.Cause tells.
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// Close ends the client without waiting for what is still buffered in it. A member of a group leaves it, also in the
// middle of what a rebalance has to wait for.
func (s *session) Close() {
	s.cancel(nil)
	s.Client.CloseAllowingRebalance()
}

// connect makes a client and waits for one broker's answer, so that a wrong address fails at once and clearly.
func (f *brokerFlag) connect(ctx context.Context, options ...kgo.Opt) (*session, error) {
	seeds, err := f.seeds()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	options = append([]kgo.Opt{
		kgo.SeedBrokers(seeds...),
		kgo.ClientID("firn"),
		kgo.SoftwareNameAndVersion("firn", softwareVersion()),
		kgo.DialTimeout(dialTimeout),
		kgo.RequestRetries(requestRetries),
		kgo.RetryTimeout(retryTimeout),
		kgo.MetadataMinAge(250 * time.Millisecond), // kgo's 5 s would make a new topic look missing for as long
		kgo.WithHooks(&reachability{cancel: cancel, patience: f.patience}),
		kgo.DisableClientMetrics(),
	}, options...)
	client, err := kgo.NewClient(options...)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	s := &session{Client: client, admin: kadm.NewClient(client), ctx: ctx, cancel: cancel}
	pingCtx, stop := context.WithTimeout(ctx, pingTimeout)
	defer stop()
	if err := client.Ping(pingCtx); err != nil {
		defer s.Close()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, unreachable(seeds, err)
	}
	return s, nil
}

// connectBeyond is connect for a command that has to finish something when it is interrupted. The session ends with ctx
// only until release is called.
func (f *brokerFlag) connectBeyond(ctx context.Context, options ...kgo.Opt) (
	client *session, release func() bool, err error,
) {
	lasting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	release = context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	if client, err = f.connect(lasting, options...); err != nil {
		release()
		cancel(nil)
		return nil, nil, err
	}
	return client, release, nil
}

// afterPatience gives up on what an interrupted command still has to finish, unless it is stopped before.
func afterPatience(interrupt context.Context, giveUp func()) (stop func()) {
	impatient := time.AfterFunc(interruptPatience, giveUp)
	impatient.Stop()
	unwatch := context.AfterFunc(interrupt, func() { impatient.Reset(interruptPatience) })
	return func() {
		unwatch()
		impatient.Stop()
	}
}

// softwareVersion is our version in the characters that KIP-511 allows.
func softwareVersion() string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '-'
	}, currentVersion().Version), ".-")
}

// unreachable says in one line why there is no cluster and what to try.
func unreachable(seeds []string, err error) error {
	where := strings.Join(seeds, ", ")
	var lookup *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("cannot reach a broker at %s: connection refused; is `firn serve` running, or give -b HOST:PORT",
			where)
	case errors.As(err, &lookup):
		return fmt.Errorf("cannot reach a broker at %s: the name %s does not resolve; check -b HOST:PORT",
			where, lookup.Name)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("no broker at %s answered in time; check -b HOST:PORT and what lies between", where)
	}
	return fmt.Errorf("cannot talk to a broker at %s: %w; check that it is Kafka's plaintext port (-b HOST:PORT)",
		where, err)
}

// reachability ends a command whose cluster has gone away. kgo itself retries fetches and idempotent produces for
// ever, which is right for a service and wrong for a command.
type reachability struct {
	cancel   context.CancelCauseFunc
	patience time.Duration // 0: never give up

	mu           sync.Mutex // guards the field below
	firstFailure time.Time  // when the present row of failed dials began; zero after anything worked
}

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (r *reachability) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		r.worked()
		return
	}
	if r.failedFor(time.Now()) >= r.patience && r.patience > 0 {
		address := net.JoinHostPort(meta.Host, fmt.Sprint(meta.Port))
		r.cancel(fmt.Errorf("gave up after %v: %w", r.patience, unreachable([]string{address}, err)))
	}
}

// OnBrokerRead implements kgo.HookBrokerRead: one broker of several that answers is enough to go on.
func (r *reachability) OnBrokerRead(_ kgo.BrokerMetadata, _ int16, _ int, _, _ time.Duration, err error) {
	if err == nil {
		r.worked()
	}
}

func (r *reachability) worked() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.firstFailure = time.Time{}
}

func (r *reachability) failedFor(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.firstFailure.IsZero() {
		r.firstFailure = now
	}
	return now.Sub(r.firstFailure)
}

var (
	_ kgo.HookBrokerConnect = (*reachability)(nil)
	_ kgo.HookBrokerRead    = (*reachability)(nil)
)

//go:build integration

package clients

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/firnlog/firn/integration/process"
)

// protocol is how members of a group agree.
type protocol string

const (
	classic protocol = "classic"  // with the assignor that the client favours
	ranges  protocol = "range"    // classic, with the assignor that most clients have
	next    protocol = "consumer" // KIP-848: the broker assigns
)

// sessionTimeout is that of every member: when one is taken for dead that says nothing.
const sessionTimeout = 6 * time.Second

// grouping is a client whose consumers join groups.
type grouping interface {
	crew(t *testing.T, records chan<- heard) crew
}

// crew is members of groups that run in one program. They read what is committed from the beginning, unless their group
// has committed an offset, and commit by themselves.
type crew interface {
	join(member, group, topic string, p protocol)
	leave(member string) // returns when it has left
}

// heard is a record as a member has read it.
type heard struct {
	Member    string `json:"member"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Value     string `json:"value"`
	Left      bool   `json:"left"` // the member has left; there is no record
}

// programCrew is members in another language:
//
//	PROGRAM members BROKERS   < a line "join MEMBER GROUP TOPIC PROTOCOL" or "leave MEMBER"
//	                          > a line of JSON for each record that a member reads, and when it has left: see heard
//
// A member's name is its client id.
type programCrew struct {
	t       *testing.T
	session *process.Session
	left    chan string
}

func (p program) crew(t *testing.T, records chan<- heard) crew {
	t.Helper()
	c := &programCrew{t: t, left: make(chan string, 1)}
	c.session = p.command("members", "").Start(t, func(ctx context.Context, line []byte) {
		var h heard
		if err := json.Unmarshal(line, &h); err != nil {
			t.Errorf("%q: %v", line, err)
			return
		}
		if h.Left {
			c.left <- h.Member
			return
		}
		select {
		case records <- h:
		case <-ctx.Done():
		}
	})
	return c
}

func (c *programCrew) join(member, group, topic string, p protocol) {
	c.session.Tell(fmt.Sprintf("join %s %s %s %s", member, group, topic, p))
}

func (c *programCrew) leave(member string) {
	c.t.Helper()
	c.session.Tell("leave " + member)
	select {
	case left := <-c.left:
		if left != member {
			c.t.Fatalf("%s has left, not %s", left, member)
		}
	case <-time.After(patience):
		c.t.Fatalf("%s does not leave", member)
	}
}

// kill ends the program, whose members say nothing any more.
func (c *programCrew) kill() { c.session.Kill() }

// kcatCrew is members of which each is a program.
type kcatCrew struct {
	t       *testing.T
	kcat    kcat
	records chan<- heard
	members map[string]*process.Session
}

func (k kcat) crew(t *testing.T, records chan<- heard) crew {
	t.Helper()
	return &kcatCrew{t: t, kcat: k, records: records, members: map[string]*process.Session{}}
}

func (c *kcatCrew) join(member, group, topic string, p protocol) {
	c.t.Helper()
	settings := []string{"session.timeout.ms=6000", "heartbeat.interval.ms=500"}
	if p == next { // the broker says how long
		settings = []string{"group.protocol=consumer"}
	}
	args := []string{"-q", "-u", "-b", c.kcat.node.Kafka, "-f", `%p %o %s\n`}
	for _, setting := range append(settings, "client.id="+member, "auto.offset.reset=earliest") {
		args = append(args, "-X", setting)
	}
	command := process.Command{Path: c.kcat.path, Args: append(args, "-G", group, topic)}
	c.members[member] = command.Start(c.t, func(ctx context.Context, line []byte) {
		h := heard{Member: member}
		if _, err := fmt.Sscan(string(line), &h.Partition, &h.Offset, &h.Value); err != nil {
			c.t.Errorf("%q: %v", line, err)
		}
		select {
		case c.records <- h:
		case <-ctx.Done():
		}
	})
}

func (c *kcatCrew) leave(member string) {
	c.t.Helper()
	c.members[member].Interrupt()
	delete(c.members, member)
}

// franzCrew is members of franz-go in this process.
type franzCrew struct {
	t       *testing.T
	node    *process.Node
	records chan<- heard
	members map[string]*franzMember
}

type franzMember struct {
	client *kgo.Client
	done   chan struct{} // closed when it reads no more
}

func (f franz) crew(t *testing.T, records chan<- heard) crew {
	t.Helper()
	c := &franzCrew{t: t, node: f.node, records: records, members: map[string]*franzMember{}}
	t.Cleanup(func() {
		for member := range c.members {
			c.leave(member)
		}
	})
	return c
}

func (c *franzCrew) join(member, group, topic string, p protocol) {
	c.t.Helper()
	options := []kgo.Opt{
		kgo.ClientID(member), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.SessionTimeout(sessionTimeout),
		kgo.HeartbeatInterval(500 * time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	}
	switch p {
	case classic: // cooperative
	case ranges:
		options = append(options, kgo.Balancers(kgo.RangeBalancer()))
	case next:
		options = append(options, kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer())
	}
	m := &franzMember{client: c.node.Client(options...), done: make(chan struct{})}
	c.members[member] = m
	go func() {
		defer close(m.done)
		c.read(member, m.client)
	}()
}

// read hands on what a member reads until it leaves or the test is over.
func (c *franzCrew) read(member string, client *kgo.Client) {
	ctx := c.t.Context()
	for {
		fetches := client.PollFetches(ctx)
		if fetches.IsClientClosed() || ctx.Err() != nil {
			return
		}
		fetches.EachError(func(_ string, _ int32, err error) {
			// A group that cannot be joined yet is told as an error, and joined again.
			if group := (*kgo.ErrGroupSession)(nil); !errors.As(err, &group) {
				c.t.Errorf("%s: %v", member, err)
			}
		})
		for _, r := range fetches.Records() {
			select {
			case c.records <- heard{Member: member, Partition: r.Partition, Offset: r.Offset, Value: string(r.Value)}:
			case <-ctx.Done():
			}
		}
	}
}

func (c *franzCrew) leave(member string) {
	m := c.members[member]
	delete(c.members, member)
	m.client.Close() // commits, and leaves the group
	<-m.done
}

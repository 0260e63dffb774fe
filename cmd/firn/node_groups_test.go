package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

func TestGroupsAgainstANode(t *testing.T) {
	var s shell
	s.broker, s.http = startNode(t, "group.initial.rebalance.delay.ms=0")
	for _, test := range []struct {
		name string
		run  func(*testing.T, shell)
	}{
		{"a group goes on where it has committed", testGroupConsume},
		{"CL-08 a group by regular expression", testGroupRegex},
		{"a group of the consumer protocol", testConsumerGroup},
		{"two members share, and one takes over", testGroupShare},
		{"CL-05 a group with members is refused", testLiveGroup},
		{"CL-06 CL-12 CL-15 a group is moved and deleted", testGroupSeek},
		{"what an output did not take is not committed", testGroupBrokenOutput},
		{"an offset that is gone is an error", testGroupOutOfRange},
		{"a transaction is seen as a whole or not at all", testTransactions},
		{"a transaction that its coordinator knows nothing of is aborted", testHangingTransaction},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, s) })
	}
}

// groupOf describes a group.
func (s shell) groupOf(t *testing.T, name string) groupDescription {
	t.Helper()
	var described groupDescriptions
	if err := json.Unmarshal([]byte(s.ok(t, "", "group describe -f json "+name)), &described); err != nil {
		t.Fatal(err)
	}
	return described.Groups[0]
}

// committed are a group's offsets as TOPIC:PARTITION=OFFSET.
func (s shell) committed(t *testing.T, group string) string {
	t.Helper()
	var offsets []string
	for _, p := range s.groupOf(t, group).Partitions {
		if p.Committed != nil {
			offsets = append(offsets, p.Topic+":"+strconv.Itoa(int(p.Partition))+"="+decimal(*p.Committed))
		}
	}
	return strings.Join(offsets, " ")
}

func testGroupConsume(t *testing.T, s shell) {
	s.ok(t, "", "topic create gone-on -p 2")
	s.ok(t, "a\nb\nc\n", "produce gone-on -p 0")
	for _, step := range []struct{ flags, produce, want, committed string }{
		{"-n 2", "", "ab", "gone-on:0=2"},
		{"", "", "c", "gone-on:0=3"},
		{"", "", "", "gone-on:0=3"},
		{"--commit none", "d\n", "d", "gone-on:0=3"},
		{"--filter-value x", "e\n", "", "gone-on:0=5"},
		{"--instance-id i", "f\n", "f", "gone-on:0=6"},
	} {
		if step.produce != "" {
			s.ok(t, step.produce, "produce gone-on -p 0")
		}
		if got := s.ok(t, "", "consume gone-on -g on -f %v "+step.flags); got != step.want {
			t.Errorf("%s prints %q, want %q", step.flags, got, step.want)
		}
		if got := s.committed(t, "on"); got != step.committed {
			t.Errorf("%s commits %q, want %q", step.flags, got, step.committed)
		}
	}
	if got := s.ok(t, "", "consume gone-on -g other -o -2 -f %v"); got != "ef" {
		t.Errorf("-o -2 prints %q", got)
	}
	s.ok(t, "g\n", "produce gone-on -p 0")
	if got := s.ok(t, "", "consume gone-on -g other -o start -f %v"); got != "g" {
		t.Errorf("with a committed offset -o start prints %q", got)
	}
}

func testGroupRegex(t *testing.T, s shell) {
	s.ok(t, "", "topic create red rouge blue")
	for topic, value := range map[string]string{"red": "1\n", "rouge": "2\n", "blue": "3\n"} {
		s.ok(t, value, "produce "+topic)
	}
	got := strings.Fields(s.ok(t, "", "consume -r ^r -g colours"))
	slices.Sort(got)
	if strings.Join(got, " ") != "1 2" {
		t.Errorf("^r: %q", got)
	}
	if got := s.committed(t, "colours"); got != "red:0=1 rouge:0=1" {
		t.Errorf("committed %q", got)
	}
}

// member runs a member of a group that follows. What it prints comes by the channel; stop ends it as an interrupt does.
func (s shell) member(t *testing.T, line string) (lines <-chan string, stop func()) {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	out := lineWriter{lines: make(chan string, 64)}
	ended := make(chan int, 1)
	var errs bytes.Buffer
	go func() { ended <- run(ctx, s.args(line), streams{in: strings.NewReader(""), out: out, err: &errs}) }()
	return out.lines, func() {
		t.Helper()
		interrupt()
		if status := <-ended; status != 0 {
			t.Errorf("firn %s: status %d, error %q", line, status, errs.String())
		}
	}
}

// testConsumerGroup reads as a member of the consumer protocol: what it prints and commits is the same.
func testConsumerGroup(t *testing.T, s shell) {
	s.ok(t, "", "topic create next-1 next-2 -p 2")
	s.ok(t, "a\nb\n", "produce next-1 -p 0")
	s.ok(t, "c\n", "produce next-2 -p 1")
	const next = "consume -g next --group-protocol consumer -f %v "
	for _, step := range []struct{ flags, want, committed string }{
		{"next-1 next-2 --commit none", "abc", ""},
		{"next-1 next-2 -n 2 --instance-id i", "", ""},
		{"next-1 next-2 --isolation read_committed", "", "next-1:0=2 next-2:1=1"},
		{"next-1 next-2", "", "next-1:0=2 next-2:1=1"},
	} {
		got := strings.Split(s.ok(t, "", next+step.flags), "")
		slices.Sort(got)
		if step.want != "" && strings.Join(got, "") != step.want {
			t.Errorf("%s prints %q, want %q", step.flags, got, step.want)
		}
		if got := s.committed(t, "next"); step.committed != "" && got != step.committed {
			t.Errorf("%s commits %q, want %q", step.flags, got, step.committed)
		}
	}
	if group := s.groupOf(t, "next"); group.Type != "consumer" {
		t.Errorf("the group is of type %q", group.Type)
	}
	got := s.ok(t, "", "consume -r next- -g all --group-protocol consumer -f %t:%v,")
	for _, want := range []string{"next-1:a,", "next-1:b,", "next-2:c,"} {
		if !strings.Contains(got, want) || len(got) != 27 {
			t.Errorf("by a regular expression: %q", got)
		}
	}
	if got := s.committed(t, "all"); got != "next-1:0=2 next-2:1=1" {
		t.Errorf("by a regular expression: committed %q", got)
	}
}

func testGroupShare(t *testing.T, s shell) {
	s.ok(t, "", "topic create shared -p 2")
	first, stopFirst := s.member(t, "consume shared -g share -F")
	s.ok(t, "a\n", "produce shared -p 0")
	if got := <-first; got != "a\n" {
		t.Errorf("alone it prints %q", got)
	}
	second, stopSecond := s.member(t, "consume shared -g share -F")
	// Both have a partition once both print.
	for firstPrints, secondPrints := false, false; !firstPrints || !secondPrints; {
		s.ok(t, "x\n", "produce shared -p 0")
		s.ok(t, "x\n", "produce shared -p 1")
		for printed := 0; printed < 2; { // records that come together are printed together
			select {
			case lines := <-first:
				firstPrints, printed = true, printed+strings.Count(lines, "\n")
			case lines := <-second:
				secondPrints, printed = true, printed+strings.Count(lines, "\n")
			}
		}
	}
	stopFirst()
	s.ok(t, "last\n", "produce shared -p 0")
	s.ok(t, "last\n", "produce shared -p 1")
	for printed := ""; strings.Count(printed, "last\n") < 2; {
		printed += <-second
	}
	stopSecond()
	if group := s.groupOf(t, "share"); group.Lag != 0 || group.State != stateEmpty {
		t.Errorf("left behind: %+v", group)
	}
}

func testLiveGroup(t *testing.T, s shell) {
	s.ok(t, "", "topic create lively")
	s.ok(t, "a\n", "produce lively")
	lines, stop := s.member(t, "consume lively -g live -F")
	<-lines
	for s.committed(t, "live") == "" { // it commits after it has printed
	}
	described := squeeze(s.ok(t, "", "group describe live"))
	if !regexp.MustCompile(`^group live: classic, Stable, .* 1 member, lag \d\n`).MatchString(described) ||
		!strings.Contains(described, "lively:0") {
		t.Errorf("described as\n%s", described)
	}
	for line, want := range map[string]string{
		"group seek live --to start --execute": "group live is Stable with 1 member",
		"group delete live":                    "NON_EMPTY_GROUP",
		"group offset-delete live lively":      "GROUP_SUBSCRIBED_TO_TOPIC",
	} {
		if got := s.fails(t, "", line); !strings.Contains(got, want) {
			t.Errorf("firn %s: %q, want %q", line, got, want)
		}
	}
	stop()
	if got := s.committed(t, "live"); got != "lively:0=1" {
		t.Errorf("committed %q", got)
	}
}

func testGroupSeek(t *testing.T, s shell) {
	s.ok(t, "", "topic create sought -p 10")
	s.ok(t, strings.Repeat("x\n", 10), "produce sought -p 0")
	plan := s.ok(t, "", "group seek moved sought --to @2300-01-01")
	if !strings.Contains(plan, "nothing was changed") || strings.Count(plan, "\nsought") != 10 {
		t.Errorf("the plan is\n%s", plan)
	}
	if got := s.fails(t, "", "group describe moved"); !strings.Contains(got, "GROUP_ID_NOT_FOUND") ||
		strings.Count(got, "\n") != 1 {
		t.Errorf("after a plan the group is %q", got)
	}
	s.ok(t, "", "group seek moved sought --to @2300-01-01 --execute")
	if group := s.groupOf(t, "moved"); group.Lag != 0 || *group.Partitions[0].Committed != 10 ||
		*group.Partitions[0].End != 10 || *group.Partitions[1].Committed != 0 {
		t.Errorf("after a seek to the future: %+v", group)
	}
	s.ok(t, "", "group seek moved --shift -3 --execute")
	s.ok(t, "", "group seek twin sought:0 --to-group moved --execute")
	if got := s.committed(t, "twin"); got != "sought:0=7" {
		t.Errorf("the twin has %q", got)
	}
	s.ok(t, "", "group offset-delete moved sought:1,2,3,4,5,6,7,8,9")
	if got := s.committed(t, "moved"); got != "sought:0=7" {
		t.Errorf("after deleting offsets: %q", got)
	}
	if got := s.fails(t, "", "group offset-delete moved sought:9"); !strings.Contains(got, "no committed offset there") {
		t.Errorf("deleting what is not there: %q", got)
	}
	listed := squeeze(s.ok(t, "", "group list --state Empty --type classic"))
	if !strings.Contains(listed, "\nmoved classic - Empty 1\n") || !strings.Contains(listed, "\ntwin ") {
		t.Errorf("listed as\n%s", listed)
	}
	if got := firn(t, "", s.args("group delete moved twin nobody")...); got.status != exitPartial ||
		!strings.Contains(squeeze(got.out), "moved deleted\ntwin deleted\nnobody failed: GROUP_ID_NOT_FOUND") {
		t.Errorf("status %d, printed\n%s", got.status, got.out)
	}
}

func testGroupBrokenOutput(t *testing.T, s shell) {
	s.ok(t, "", "topic create unheard")
	s.ok(t, "a\n", "produce unheard")
	s.ok(t, "", "group seek deaf unheard --to start --execute")
	var errs bytes.Buffer
	status := run(t.Context(), s.args("consume unheard -g deaf"),
		streams{in: strings.NewReader(""), out: fullDisk{}, err: &errs})
	if status != exitFailed || !strings.Contains(errs.String(), "no space left") {
		t.Errorf("status %d, error %q", status, errs.String())
	}
	if got := s.committed(t, "deaf"); got != "unheard:0=0" {
		t.Errorf("committed %q", got)
	}
}

func testGroupOutOfRange(t *testing.T, s shell) {
	s.ok(t, "", "topic create recreated")
	s.ok(t, "a\nb\n", "produce recreated")
	s.ok(t, "", "topic create shorter")
	s.ok(t, "", "group seek ahead shorter --to end --execute")
	// An offset behind the end is what is left when a log was cut, or of another cluster.
	client, err := (&brokerFlag{addresses: []string{s.broker}}).connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	plan := seekPlan{Group: "ahead", Partitions: []seekPartition{{Topic: "shorter", Offset: 7}}}
	if err := plan.execute(client); err != nil {
		t.Fatal(err)
	}
	got := s.fails(t, "", "consume shorter -g ahead -F")
	if !strings.Contains(got, "OFFSET_OUT_OF_RANGE") || !strings.Contains(got, "`firn group seek` moves it") {
		t.Errorf("error %q", got)
	}
}

func testTransactions(t *testing.T, s shell) {
	s.ok(t, "", "topic create whole")
	const reads = "consume whole -f %v, --isolation "
	got := firn(t, "a\nb\n", s.args("produce whole --transactional-id w")...)
	if got.status != 0 || !strings.HasSuffix(got.err, ", in a transaction that was committed\n") {
		t.Errorf("status %d, error %q", got.status, got.err)
	}
	// The third record does not fit, so that none of the second transaction counts.
	s.ok(t, "", "topic alter whole -c max.message.bytes=1000")
	if failed := s.fails(t, "c\nd\n"+strings.Repeat("x", 2000)+"\n", "produce whole --transactional-id w"); !strings.Contains(
		failed, "in a transaction that was aborted\n") {
		t.Errorf("error %q", failed)
	}
	if committed := s.ok(t, "", reads+"read_committed"); committed != "a,b," {
		t.Errorf("readers of committed records see %q", committed)
	}
	if all := s.ok(t, "", reads+"read_uncommitted"); !strings.HasPrefix(all, "a,b,") {
		t.Errorf("all others see %q", all)
	}
	if committed := s.ok(t, "", "consume whole -g whole -f %v, --isolation read_committed"); committed != "a,b," {
		t.Errorf("a group sees %q", committed)
	}
	if lag := s.groupOf(t, "whole").Lag; lag != 0 {
		t.Errorf("behind the marker of the abort the lag is %d", lag)
	}
	testAbort(t, s)
}

// testAbort aborts a transaction from outside while its producer waits for more.
func testAbort(t *testing.T, s shell) {
	in, typed := io.Pipe()
	ended := make(chan int, 1)
	out := lineWriter{lines: make(chan string, 4)}
	var errs bytes.Buffer
	go func() {
		ended <- run(t.Context(), s.args("produce whole --transactional-id stuck --sync"), streams{in: in, out: out, err: &errs})
	}()
	if _, err := io.WriteString(typed, "never seen\n"); err != nil {
		t.Fatal(err)
	}
	<-out.lines // it is acknowledged
	described := squeeze(s.ok(t, "", "txn describe stuck"))
	if !regexp.MustCompile(`\nstuck Ongoing \d+ 0 1m0s \d+s 1 whole:0\n$`).MatchString(described) {
		t.Errorf("described as %q", described)
	}
	if listed := s.ok(t, "", "txn list --state Ongoing"); strings.Count(listed, "\n") != 2 {
		t.Errorf("listed as %q", listed)
	}
	aborted := firn(t, "", s.args("txn abort stuck w nobody")...)
	if aborted.status != exitPartial || !strings.Contains(squeeze(aborted.out),
		"\nstuck aborted\nw not open: CompleteAbort\nnobody failed: TRANSACTIONAL_ID_NOT_FOUND") {
		t.Errorf("status %d, printed %q", aborted.status, aborted.out)
	}
	typed.Close()
	if status := <-ended; status != exitFailed || !strings.Contains(errs.String(), "taken over the transactional id") {
		t.Errorf("the producer ends with status %d, error %q", status, errs.String())
	}
	if got := s.fails(t, "", "txn abort --partition whole:0 --start-offset 0"); !strings.Contains(got, "no transaction is open") {
		t.Errorf("a hanging transaction that is none: %q", got)
	}
}

// testHangingTransaction leaves records of a transaction in a partition that the transaction's coordinator knows nothing
// of, as a producer can where partitions are not verified: nobody would ever end it. An abort by its place does.
func testHangingTransaction(t *testing.T, s shell) {
	s.ok(t, "", "topic create hung")
	client, err := (&brokerFlag{addresses: []string{s.broker}}).connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	verify := func(value string) {
		t.Helper()
		altered, err := client.admin.AlterBrokerConfigs(t.Context(), []kadm.AlterConfig{
			{Name: "transaction.partition.verification.enable", Value: &value},
		})
		if err = errors.Join(err, altered[0].Err); err != nil {
			t.Fatal(err)
		}
	}
	id := "forgetful"
	begin := kmsg.NewPtrInitProducerIDRequest()
	begin.TransactionalID, begin.TransactionTimeoutMillis = &id, 60000
	producer, err := begin.RequestWith(t.Context(), client)
	if err != nil || producer.ErrorCode != 0 {
		t.Fatalf("%+v: %v", producer, err)
	}
	verify("true")
	if code := produceOpen(t, client, "hung", id, producer); code != kerr.InvalidTxnState {
		t.Errorf("what the coordinator knows nothing of is answered %v", code)
	}
	verify("false")
	if code := produceOpen(t, client, "hung", id, producer); code != nil {
		t.Fatal(code)
	}
	verify("true")
	if described := squeeze(s.ok(t, "", "txn describe "+id)); !strings.Contains(described, "Empty") {
		t.Errorf("the coordinator knows of it: %q", described)
	}
	s.ok(t, "behind it\n", "produce hung")
	const committed = "consume hung --isolation read_committed"
	if got := s.ok(t, "", committed); got != "" {
		t.Errorf("while it hangs %q is printed", got)
	}
	if got := s.fails(t, "", "txn abort --partition hung:0 --start-offset 1"); !strings.Contains(got,
		"no transaction begins at offset 1 of hung:0: those that are open begin at 0") {
		t.Errorf("at another place: %q", got)
	}
	if got := squeeze(s.ok(t, "", "txn abort --partition hung:0 --start-offset 0")); !strings.Contains(got, "hung:0@0 aborted") {
		t.Errorf("aborted: %q", got)
	}
	if got := s.ok(t, "", committed); got != "behind it\n" {
		t.Errorf("once it is aborted %q is printed", got)
	}
}

// produceOpen writes a batch of one transactional record, in a version in which partitions do not join by it.
func produceOpen(t *testing.T, client *session, topic, id string, producer *kmsg.InitProducerIDResponse) error {
	t.Helper()
	batch := batchOf(0, 0, map[int64]string{0: "open"})
	batch.FirstTimestamp = time.Now().UnixMilli() // retention would take one of 1970
	batch.MaxTimestamp = batch.FirstTimestamp
	batch.Attributes, batch.ProducerID, batch.ProducerEpoch, batch.FirstSequence = 0x10, producer.ProducerID, producer.ProducerEpoch, 0
	request := kmsg.NewPtrProduceRequest()
	request.TransactionID, request.Acks, request.TimeoutMillis = &id, -1, 10000
	request.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{
		{Records: checked(&batch)},
	}}}
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(request.Key(), 10)
	old, err := kgo.NewClient(kgo.SeedBrokers(client.OptValue(kgo.SeedBrokers).([]string)...), kgo.MaxVersions(versions))
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	response, err := request.RequestWith(t.Context(), old)
	if err != nil {
		t.Fatal(err)
	}
	return kerr.ErrorForCode(response.Topics[0].Partitions[0].ErrorCode)
}

package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func TestTransactionsAreDescribedALineEach(t *testing.T) {
	var topics kadm.TopicsSet
	topics.Add("t", 2, 0)
	topics.Add("a", 1)
	found := kadm.DescribedTransactions{
		"open": {TxnID: "open", State: "Ongoing", ProducerID: 7, ProducerEpoch: 3, TimeoutMillis: 60_000, StartTimestamp: 5_000,
			Coordinator: 1, Topics: topics},
		"done": {TxnID: "done", State: "CompleteCommit", ProducerID: 8, TimeoutMillis: 500, StartTimestamp: 5_000},
		"gone": {Err: kerr.TransactionalIDNotFound},
	}
	described, err := describedTransactions([]string{"open", "done", "gone", "silent"}, found, time.UnixMilli(65_000))
	if exitStatus(err) != exitPartial || !strings.Contains(err.Error(), "2 of 4 transactional ids failed") {
		t.Errorf("error %v", err)
	}
	var text bytes.Buffer
	if err := described.writeText(&text); err != nil {
		t.Fatal(err)
	}
	want := "TRANSACTIONAL ID  STATE           PRODUCER ID  EPOCH  TIMEOUT  OPEN FOR  COORDINATOR  PARTITIONS\n" +
		"open              Ongoing         7            3      1m0s     1m0s      1            a:1 t:0,2\n" +
		"done              CompleteCommit  8            0      500ms    -         0            -\n"
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Error(diff)
	}
	if described, err := describedTransactions([]string{"gone"}, found, time.Now()); described != nil ||
		exitStatus(err) != exitFailed {
		t.Errorf("described %+v, error %v", described, err)
	}
}

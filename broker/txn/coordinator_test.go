package txn

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firnlog/firn/internal/kafka"
)

func TestATransactionIsCommitted(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker) {
		producer := b.begin("a")
		if producer != (Producer{ID: 10}) {
			t.Errorf("begins as %v", producer)
		}
		wantError(t, b.join("a", producer), kafka.None)
		b.wantState("a", "Ongoing 10/0")
		outcome := b.commit("a", producer)
		if outcome.Err != nil || outcome.Producer != (Producer{ID: 10, Epoch: 1}) {
			t.Errorf("committed: %+v", outcome)
		}
		wantError(t, b.join("a", outcome.Producer), kafka.None) // waits for the markers
		wantLines(t, b.markers.take(), "COMMIT 10/1 to t-0, coordinator epoch 1, version 2")
		wantError(t, b.abort("a", outcome.Producer).Err, kafka.None)
		synctest.Wait()
		wantLines(t, b.markers.take(), "ABORT 10/2 to t-0, coordinator epoch 1, version 2")
		b.wantState("a", "CompleteAbort 10/2")
	})
}

func TestWhatIsNotServedIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker) {
		for timeout, want := range map[int32]kafka.Errno{
			0: kafka.InvalidTransactionTimeout, -1: kafka.InvalidTransactionTimeout,
			900001: kafka.InvalidTransactionTimeout, 900000: kafka.None,
		} {
			_, err := b.InitProducerID(t.Context(), "a", timeout, NoProducer)
			wantError(t, err, want)
		}
		_, err := b.InitProducerID(t.Context(), "", 1000, NoProducer)
		wantError(t, err, kafka.InvalidRequest)
		wantError(t, b.join("nobody", Producer{ID: 10}), kafka.InvalidProducerIDMapping)
		wantError(t, b.join("nobody", NoProducer), kafka.InvalidProducerIDMapping)
		wantError(t, b.commit("nobody", Producer{ID: 10}).Err, kafka.InvalidProducerIDMapping)
		_, err = b.Describe(t.Context(), "nobody")
		wantError(t, err, kafka.TransactionalIDNotFound)
		b.journal.failWith(kafka.MessageTooLarge)
		wantError(t, b.join("a", Producer{ID: 10}), kafka.UnknownServerError)
		b.journal.failWith(nil)
		b.Runtime().Resign(0)
		wantError(t, b.join("a", Producer{ID: 10}), kafka.NotCoordinator)
	})
}

func TestNothingIsAnsweredThatIsNotCommitted(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker) {
		producer := b.begin("a")
		b.journal.hold()
		joined := b.Add("a", producer, partitions(t, []string{"t-0"}), versionEpochBump)
		again := b.Add("a", producer, partitions(t, []string{"t-0"}), versionEpochBump)
		ended := b.End("a", producer, true, versionEpochBump)
		time.Sleep(time.Minute)
		for name, promise := range map[string]*Promise{"the first": joined, "its repetition": again, "the end": ended} {
			select {
			case <-promise.Done():
				t.Errorf("%s is answered before it is committed", name)
			default:
			}
		}
		wantLines(t, b.markers.take())
		b.journal.powerCut()
		b.restart()
		wantError(t, await(t.Context(), joined).Err, kafka.NotCoordinator)
		wantError(t, await(t.Context(), ended).Err, kafka.NotCoordinator)
		b.wantState("a", "Empty 10/0")
		wantError(t, b.join("a", producer), kafka.None)
	})
}

// TX-04, TX-07: while the markers are on their way whoever comes waits a moment, and is then told to come again.
func TestTX04TX07RequestsWaitForTheMarkers(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker) {
		producer := b.begin("a")
		wantError(t, b.join("a", producer), kafka.None)
		b.markers.failing(func(Marker) error { return kafka.NotLeaderOrFollower })
		next := b.commit("a", producer).Producer
		before := time.Now()
		wantError(t, b.abort("a", next).Err, kafka.ConcurrentTransactions)
		wantError(t, b.commit("a", producer).Err, kafka.ConcurrentTransactions)
		wantError(t, b.join("a", next), kafka.ConcurrentTransactions)
		if waited := time.Since(before); waited != 3*parkTime {
			t.Errorf("they waited %s", waited)
		}
		_, err := b.InitProducerID(t.Context(), "a", 1000, NoProducer)
		wantError(t, err, kafka.ConcurrentTransactions)

		retry, soon := b.End("a", producer, true, versionEpochBump), b.End("a", next, false, versionEpochBump)
		b.markers.failing(nil)
		synctest.Wait()
		time.Sleep(2 * time.Second)
		for range 3 {
			wantError(t, b.commit("a", producer).Err, kafka.None) // that the first answer got lost does not matter
		}
		wantError(t, await(t.Context(), retry).Err, kafka.ConcurrentTransactions)
		wantError(t, await(t.Context(), soon).Err, kafka.ConcurrentTransactions)
		wantLines(t, b.markers.take(), "COMMIT 10/1 to t-0, coordinator epoch 1, version 2")
		wantError(t, b.abort("a", next).Err, kafka.None)
	})
}

func TestARetryGetsTheAnswerOfTheMarkers(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker) {
		producer := b.begin("a")
		wantError(t, b.join("a", producer), kafka.None)
		failures := 2
		b.markers.failing(func(Marker) error {
			if failures--; failures >= 0 {
				return kafka.NotEnoughReplicas
			}
			return nil
		})
		next := b.commit("a", producer).Producer
		before := time.Now()
		if again := b.commit("a", producer); again.Err != nil || again.Producer != next {
			t.Errorf("the retry got %+v", again)
		}
		if waited := time.Since(before); waited != 3*retryMarkersAfter {
			t.Errorf("it waited %s", waited)
		}
	})
}

// TX-05: fences that cannot be written burn no epochs.
func TestTX05FailedFencesBurnNoEpochs(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker) {
		producer := b.begin("a")
		wantError(t, b.join("a", producer), kafka.None)
		b.journal.failWith(kafka.NotEnoughReplicas)
		for range 100 {
			_, err := b.InitProducerID(t.Context(), "a", 1000, NoProducer)
			wantError(t, err, kafka.CoordinatorNotAvailable)
		}
		time.Sleep(time.Hour) // its time is over, too
		b.wantState("a", "Ongoing 10/0")
		b.journal.failWith(nil)
		if again := b.begin("a"); again != (Producer{ID: 10, Epoch: 2}) {
			t.Errorf("begins as %v", again)
		}
	})
}

func TestTX05ExhaustedEpochsGetANewProducerID(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker) {
		b.begin("a")
		producer := Producer{ID: 10, Epoch: lastEpoch}
		exhaust(t, b, "a")
		wantError(t, b.join("a", producer), kafka.None)
		wantError(t, b.commit("a", producer).Err, kafka.CoordinatorLoadInProgress) // none is at hand
		synctest.Wait()
		next := b.commit("a", producer)
		if next.Err != nil || next.Producer != (Producer{ID: 11}) {
			t.Errorf("goes on as %+v", next)
		}
		wantError(t, b.join("a", next.Producer), kafka.None)
		wantLines(t, b.markers.take(), "COMMIT 10/32767 to t-0, coordinator epoch 1, version 2")
		exhaust(t, b, "a")
		synctest.Wait()
		if begun := b.begin("a"); begun != (Producer{ID: 13}) && begun != (Producer{ID: 12}) {
			t.Errorf("begins as %v", begun)
		}
	})
}

// exhaust moves an id to its last epoch.
func exhaust(t *testing.T, b *broker, id string) {
	err := b.locked(id, func(r *registry) {
		e, err := r.find(id)
		if err != nil {
			t.Error(err)
			return
		}
		next := e.Transaction
		next.Epoch = lastEpoch
		if next.State == Ongoing {
			next.Partitions = nil
			next.State = Empty
		}
		r.write(id, e, next, func(err error) { wantError(t, err, kafka.None) })
	})
	wantError(t, err, kafka.None)
	synctest.Wait()
}

// TX-01: a transaction past its time is aborted, and its producer is refused from then on.
func TestTX01TransactionsPastTheirTimeAreAborted(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker) {
		producer := b.begin("a") // a second
		wantError(t, b.join("a", producer), kafka.None)
		time.Sleep(time.Second - time.Millisecond)
		synctest.Wait()
		b.wantState("a", "Ongoing 10/0")
		time.Sleep(time.Millisecond)
		synctest.Wait()
		b.wantState("a", "CompleteAbort 10/1")
		wantLines(t, b.markers.take(), "ABORT 10/1 to t-0, coordinator epoch 1, version 2")
		wantError(t, b.join("a", producer), kafka.ProducerFenced)
		wantError(t, b.commit("a", producer).Err, kafka.InvalidTxnState)
		wantError(t, await(t.Context(), b.End("a", producer, true, versionClassic)).Err, kafka.ProducerFenced)
	})
}

func TestTheTimeOfATransactionOutlivesARestart(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker) {
		producer := b.begin("a")
		wantError(t, b.join("a", producer), kafka.None)
		b.crash()
		time.Sleep(600 * time.Millisecond)
		b.start()
		b.wantState("a", "Ongoing 10/0")
		time.Sleep(400 * time.Millisecond)
		synctest.Wait()
		b.wantState("a", "CompleteAbort 10/1")
	})
}

// TX-13: the owner bumps its epoch; a stale one is fenced, and so is whoever a new producer follows.
func TestTX13OwnersBumpTheirEpoch(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker) {
		first := b.begin("a")
		own, err := b.InitProducerID(t.Context(), "a", 1000, first)
		if err != nil || own != (Producer{ID: 10, Epoch: 1}) {
			t.Errorf("bumped to %v, %v", own, err)
		}
		_, err = b.InitProducerID(t.Context(), "a", 1000, Producer{ID: 10, Epoch: 7})
		wantError(t, err, kafka.ProducerFenced)
		second := b.begin("a")
		_, err = b.InitProducerID(t.Context(), "a", 1000, own)
		wantError(t, err, kafka.ProducerFenced)
		wantError(t, b.join("a", own), kafka.ProducerFenced)
		wantError(t, b.join("a", second), kafka.None)
	})
}

// What the last producer has begun is aborted before the next one begins, in one go.
func TestABeginningProducerAbortsWhatIsGoingOn(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker) {
		producer := b.begin("a")
		wantError(t, b.join("a", producer), kafka.None)
		if next := b.begin("a"); next != (Producer{ID: 10, Epoch: 2}) {
			t.Errorf("begins as %v", next)
		}
		wantLines(t, b.markers.take(), "ABORT 10/1 to t-0, coordinator epoch 1, version 2")
		wantError(t, b.commit("a", producer).Err, kafka.ProducerFenced)
	})
}

// A crash at each step of a commit: what was decided is done, in the next coordinator's name; what was not is open.
func TestACommitSurvivesACrashAtEachStep(t *testing.T) {
	steps := map[string]struct {
		crash  func(b *broker, producer Producer)
		states []string
	}{
		"before the decision is committed": {func(b *broker, producer Producer) {
			b.journal.hold()
			b.End("a", producer, true, versionEpochBump)
			b.journal.powerCut()
		}, []string{"Ongoing 10/0"}},
		"between decision and markers": {func(b *broker, producer Producer) {
			b.markers.failing(func(Marker) error { return kafka.KafkaStorageError })
			wantError(b.t, b.commit("a", producer).Err, kafka.None)
			synctest.Wait()
			b.markers.failing(nil)
		}, []string{"CompleteCommit 10/1", "COMMIT 10/1 to t-0, coordinator epoch 2, version 2", "COMMIT 10/1 to u-0, coordinator epoch 2, version 2"}},
		"between two markers": {func(b *broker, producer Producer) {
			b.markers.failing(func(m Marker) error {
				if m.Partition.Topic == "u" {
					return kafka.NotLeaderOrFollower
				}
				return nil
			})
			wantError(b.t, b.commit("a", producer).Err, kafka.None)
			synctest.Wait()
			b.markers.failing(nil)
		}, []string{"CompleteCommit 10/1", "COMMIT 10/1 to t-0, coordinator epoch 1, version 2", "COMMIT 10/1 to t-0, coordinator epoch 2, version 2", "COMMIT 10/1 to u-0, coordinator epoch 2, version 2"}},
		"between the markers and the end": {func(b *broker, producer Producer) {
			wantError(b.t, b.commitHolding("a", producer), kafka.None)
			b.journal.powerCut()
		}, []string{"CompleteCommit 10/1", "COMMIT 10/1 to t-0, coordinator epoch 1, version 2", "COMMIT 10/1 to u-0, coordinator epoch 1, version 2", "COMMIT 10/1 to t-0, coordinator epoch 2, version 2", "COMMIT 10/1 to u-0, coordinator epoch 2, version 2"}},
	}
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *broker) {
				producer := b.begin("a")
				joined := b.Add("a", producer, partitions(t, []string{"t-0", "u-0"}), versionEpochBump)
				wantError(t, await(t.Context(), joined).Err, kafka.None)
				step.crash(b, producer)
				b.restart()
				synctest.Wait()
				b.wantState("a", step.states[0])
				wantLines(t, b.markers.take(), step.states[1:]...)
			})
		})
	}
}

// commitHolding commits, with the end of the transaction not committed to the journal.
func (b *broker) commitHolding(id string, producer Producer) error {
	b.markers.failing(func(Marker) error { b.journal.hold(); return nil })
	defer b.markers.failing(nil)
	err := b.commit(id, producer).Err
	synctest.Wait()
	return err
}

func TestPartitionsThatAreNoMoreNeedNoMarker(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker) {
		producer := b.begin("a")
		joined := b.Add("a", producer, partitions(t, []string{"t-0", "u-0", "v-0"}), versionEpochBump)
		wantError(t, await(t.Context(), joined).Err, kafka.None)
		b.markers.failing(func(m Marker) error {
			switch m.Partition.Topic {
			case "t":
				return kafka.UnknownTopicOrPartition
			case "u":
				return kafka.NotLeaderOrFollower
			}
			return nil
		})
		wantError(t, b.commit("a", producer).Err, kafka.None)
		time.Sleep(time.Minute)
		got, err := b.Describe(t.Context(), "a")
		wantError(t, err, kafka.None)
		if text := got.describe(); got.State != PrepareCommit || !slices.Equal(got.Partitions, partitions(t, []string{"u-0"})) {
			t.Errorf("described as %s", text)
		}
		b.markers.failing(nil)
		time.Sleep(time.Minute)
		b.wantState("a", "CompleteCommit 10/1")
	})
}

// TX-08: a transaction whose coordinator crashes ends by its own time, and its producer can begin again.
func TestTX08NoTransactionIsStuck(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker) {
		producer := b.begin("a")
		joined := b.Add("a", producer, []kafka.TopicPartition{{Topic: kafka.GroupMetadataTopic, Partition: 7}}, versionClassic)
		wantError(t, await(t.Context(), joined).Err, kafka.None)
		b.markers.failing(func(Marker) error { return kafka.NotLeaderOrFollower }) // the group coordinator is away
		b.restart()
		_, err := b.InitProducerID(t.Context(), "a", 1000, NoProducer)
		wantError(t, err, kafka.ConcurrentTransactions)
		time.Sleep(time.Second)
		b.markers.failing(nil)
		time.Sleep(time.Second)
		next := b.begin("a")
		wantError(t, b.join("a", next), kafka.None)
		wantError(t, b.commit("a", next).Err, kafka.None)
	})
}

func TestPartitionsAreVerified(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker) {
		producer := b.begin("a")
		asked := partitions(t, []string{"t-0", "t-1"})
		for _, err := range b.AddPartitions(t.Context(), "a", producer, asked, true) {
			wantError(t, err, kafka.TransactionAbortable)
		}
		for _, err := range b.AddPartitions(t.Context(), "a", producer, asked[:1], false) {
			wantError(t, err, kafka.None)
		}
		errs := b.AddPartitions(t.Context(), "a", producer, asked, true)
		wantError(t, errs[0], kafka.None)
		wantError(t, errs[1], kafka.TransactionAbortable)
		for _, err := range b.AddPartitions(t.Context(), "a", Producer{ID: 10, Epoch: 3}, asked, true) {
			wantError(t, err, kafka.ProducerFenced)
		}
		b.markers.failing(func(Marker) error { return kafka.NotLeaderOrFollower })
		wantError(t, b.commit("a", producer).Err, kafka.None)
		for _, err := range b.AddPartitions(t.Context(), "a", Producer{ID: 10, Epoch: 1}, asked, true) {
			wantError(t, err, kafka.ConcurrentTransactions)
		}
	})
}

func TestUnusedIDsExpire(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker) {
		const many = 2*maxExpired + 3
		for i := range many {
			b.begin(fmt.Sprint("expires-", i))
		}
		time.Sleep(b.config.Expiration - time.Minute)
		used := b.begin("used")
		b.restart()
		b.wantState("expires-7", "Empty 17/0")
		time.Sleep(2 * time.Hour)
		listed, err := b.List(t.Context(), func(Listed) bool { return true })
		if err != nil || len(listed) != 1 || listed[0].TransactionalID != "used" {
			t.Errorf("%d are left: %v", len(listed), err)
		}
		b.wantState("expires-7", "TRANSACTIONAL_ID_NOT_FOUND")
		wantError(t, b.join("expires-7", Producer{ID: 17}), kafka.InvalidProducerIDMapping)
		wantError(t, b.join("used", used), kafka.None)
		time.Sleep(time.Hour)
		if again := b.begin("expires-7"); again.Epoch != 0 || again.ID < 10+many {
			t.Errorf("begins as %v", again)
		}
	})
}

func TestIDsAreListedFromMemoryAndTheView(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker) {
		b.begin("idle")
		time.Sleep(time.Hour) // out of memory
		producer := b.begin("busy")
		wantError(t, b.join("busy", producer), kafka.None)
		list := func(wanted func(Listed) bool) (ids []string) {
			listed, err := b.List(t.Context(), wanted)
			wantError(t, err, kafka.None)
			for _, one := range listed {
				ids = append(ids, one.TransactionalID+" "+one.State.String())
			}
			slices.Sort(ids)
			return ids
		}
		if got := list(func(Listed) bool { return true }); !slices.Equal(got, []string{"busy Ongoing", "idle Empty"}) {
			t.Errorf("all: %q", got)
		}
		if got := list(func(l Listed) bool { return l.State == Empty }); !slices.Equal(got, []string{"idle Empty"}) {
			t.Errorf("empty ones: %q", got)
		}
	})
}

func TestAnotherCoordinatorGoesOn(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker) {
		producer := b.begin("a")
		wantError(t, b.join("a", producer), kafka.None)
		b.markers.failing(func(Marker) error { return kafka.TransactionCoordinatorFenced })
		next := b.commit("a", producer)
		wantError(t, next.Err, kafka.None)
		waiting := b.Add("a", next.Producer, partitions(t, []string{"t-0"}), versionEpochBump)
		b.Runtime().Resign(0)
		wantError(t, await(t.Context(), waiting).Err, kafka.NotCoordinator)
		wantLines(t, b.markers.take())
	})
}

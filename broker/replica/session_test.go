package replica

import (
	"log/slog"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/firnlog/firn/internal/kafka"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// followed is a session on partitions that have no logs: what it looks at is what counts here.
type followed struct {
	*Session
	partitions []*Partition
	all        []*Subscription
}

func follow(partitions ...*Partition) *followed {
	f := &followed{Session: &Session{}, partitions: partitions}
	for range partitions {
		f.all = append(f.all, &Subscription{})
		f.Want(f.all[len(f.all)-1], FetchPartition{})
	}
	f.resolve()
	return f
}

func (f *followed) resolve() {
	f.Resolve(func(sub *Subscription) (*Partition, error) { return f.partitions[slices.Index(f.all, sub)], nil })
}

// looks lists the partitions that a fetch looks at.
func (f *followed) looks() (indexes []int) {
	for _, p := range f.pending(nil) {
		indexes = append(indexes, slices.Index(f.all, p.Subscription))
	}
	return indexes
}

// settle ends a fetch that has found nothing in any of the partitions that it has looked at.
func (f *followed) settle(looked []FetchPartition) {
	results := make([]FetchResult, len(looked))
	for i := range results {
		results[i].AtEnd = true
	}
	f.Settle(looked, results)
}

func somePartitions(count int) (*Manager, []*Partition) {
	m := NewManager(Options{Logger: slog.New(slog.DiscardHandler)})
	partitions := make([]*Partition, count)
	for i := range partitions {
		partitions[i] = &Partition{topicPartition: kafka.TopicPartition{Topic: "t", Partition: int32(i)}, manager: m}
		partitions[i].state.Store(&leadership{})
	}
	return m, partitions
}

func TestAFetchLooksOnlyAtWhatHasChanged(t *testing.T) {
	_, partitions := somePartitions(1000)
	session := follow(partitions...)
	looked := session.pending(nil)
	if len(looked) != 1000 {
		t.Fatalf("the first fetch looks at %d partitions", len(looked))
	}
	session.settle(looked)
	if got := session.looks(); len(got) != 0 {
		t.Fatalf("nothing has changed, and the fetch looks at %v", got)
	}
	partitions[7].changed()
	partitions[3].changed()
	partitions[7].awaited() // as an append does it
	session.Want(session.all[500], FetchPartition{Offset: 5})
	if got := session.looks(); !slices.Equal(got, []int{7, 3, 500}) {
		t.Errorf("the fetch looks at %v", got)
	}
	looked = session.pending(nil)
	partitions[3].changed() // while the fetch reads
	session.settle(looked)
	if got := session.looks(); !slices.Equal(got, []int{3}) {
		t.Errorf("after a change that the last fetch may have missed the next one looks at %v", got)
	}
	old := partitions[9]
	old.state.Store(&leadership{deleted: true})
	old.changed()
	_, others := somePartitions(1)
	session.partitions[9] = others[0]
	session.resolve()
	others[0].changed()
	if session.all[9].wanted.Partition != others[0] || old.followers.count.Load() != 0 {
		t.Error("a partition that was deleted and made anew is not the new one")
	}
}

func TestNothingFollowsAPartitionForASessionThatIsGone(t *testing.T) {
	_, partitions := somePartitions(2)
	sessions := []*followed{follow(partitions...), follow(partitions...), follow(partitions...)}
	count := func() int32 { return partitions[0].followers.count.Load() }
	if count() != 3 {
		t.Fatalf("%d sessions follow the partition", count())
	}
	sessions[0].Forget(sessions[0].all[0])
	sessions[1].Close()
	for _, sub := range sessions[1].all {
		sessions[1].Forget(sub)
	}
	late := &Subscription{}
	sessions[1].all, sessions[1].partitions = append(sessions[1].all, late), append(sessions[1].partitions, partitions[0])
	sessions[1].Want(late, FetchPartition{})
	sessions[1].resolve()
	if count() != 1 || partitions[0].followers.list[0] != sessions[2].all[0] {
		t.Errorf("%d sessions follow the partition, and one is left", count())
	}
	if got := sessions[0].looks(); !slices.Equal(got, []int{1}) {
		t.Errorf("after forgetting partition 0 a fetch looks at %v", got)
	}
	if late.wanted.Partition != partitions[0] {
		t.Error("a fetch under way does not find its partition")
	}
}

// A change of a partition with a follower, and an append to it, cost no allocation.
func TestTellingFollowersDoesNotAllocate(t *testing.T) {
	_, partitions := somePartitions(1)
	session := follow(partitions...)
	session.waiting.Add(1)
	if allocations := testing.AllocsPerRun(100, func() {
		partitions[0].awaited()
		partitions[0].changed()
	}); allocations > 0 {
		t.Errorf("%.0f allocations", allocations)
	}
}

package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/coordinator"
	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/internal/kafka"
)

// CommitInTransaction stores offsets that count once the producer's transaction is committed. Whoever calls it has made
// sure that the journal's partition is a part of that transaction. Apart from that it is as Commit.
func (c *Coordinator) CommitInTransaction(request *kmsg.OffsetCommitRequest, producer coordinator.Producer) *Answer {
	refuse := func(err error) kmsg.Response {
		code := errorCode(err)
		if code == kafka.StaleMemberEpoch {
			code = kafka.IllegalGeneration // all that TxnOffsetCommit up to v5 knows
		}
		return CommitRefused(request, code)
	}
	if request.Group == "" {
		return coordinator.Resolved(refuse(kafka.InvalidGroupID))
	}
	return c.serve(request.Group, refuse, func(t turn) (machine.Step, error) {
		return machine.Step{}, t.commit(request, &producer)
	})
}

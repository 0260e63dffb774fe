package metastore

import (
	"fmt"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/metastore/state"
)

// transition applies one command: to an image, and to a batch that already holds what the commands before it changed.
// Commands check everything before they change anything, so that a refused one leaves no trace.
type transition struct {
	batch *state.Batch
	image *image.Image // before the command, then after it
	delta image.Delta
	index uint64
	fault error // the database could not be read: the state machine must stop
}

// apply runs the command. A refusal is an error that carries a Kafka code; its result may still say something.
func (t *transition) apply(cmd command.Command) (result any, refusal error) {
	switch cmd := cmd.(type) {
	case command.InitCluster:
		return t.initCluster(cmd)
	case command.RegisterBroker:
		return t.registerBroker(cmd)
	case command.AllocateProducerIDs:
		return t.allocateProducerIDs(cmd)
	case command.CreateTopics:
		return t.createTopics(cmd), nil
	case command.DeleteTopic:
		return nil, t.deleteTopic(cmd)
	case command.CreatePartitions:
		return nil, t.createPartitions(cmd)
	case command.AlterConfigs:
		return nil, t.alterConfigs(cmd)
	case command.BumpLeaderEpochs:
		return t.bumpLeaderEpochs(cmd), nil
	case command.RestoreTopics:
		return t.restoreTopics(cmd), nil
	case command.SetNextProducerID:
		return t.setNextProducerID(cmd)
	default:
		return t.applyTier(cmd)
	}
}

// applyTier runs a command about what is in the bucket.
func (t *transition) applyTier(cmd command.Command) (result any, refusal error) {
	switch cmd := cmd.(type) {
	case command.OpenTier:
		return t.openTier(cmd)
	case command.ReserveUploads:
		return t.reserveUploads(cmd)
	case command.CommitSegment:
		return t.commitSegment(cmd)
	case command.AdvanceStart:
		return t.advanceStart(cmd)
	case command.EmptyTier:
		return t.emptyTier(cmd)
	case command.Seal:
		return t.seal(cmd)
	case command.ReplaceRange:
		return t.replaceRange(cmd)
	case command.PinSnapshot:
		return nil, t.pinSnapshot(cmd)
	case command.ExtendPin:
		return nil, t.extendPin(cmd)
	case command.Unpin:
		t.batch.Delete(state.SpaceTier, pinKey(cmd.ID))
		return nil, nil
	case command.CheckpointWritten:
		return nil, t.checkpointWritten(cmd)
	case command.LapseReservations:
		return t.lapseReservations(cmd)
	case command.Collected:
		t.collected(cmd)
		return nil, nil
	case command.TopicCollected:
		t.topicCollected(cmd)
		return nil, nil
	default:
		t.fault = fmt.Errorf("command %s has no place in the state machine", cmd.Type())
		return nil, t.fault
	}
}

// get reads a value of the tier, seeing what earlier commands of the batch have changed; nil if it is absent.
func (t *transition) get(key []byte) []byte {
	value, err := t.batch.Get(state.SpaceTier, key)
	t.note(err)
	return value
}

// note keeps the first failure.
func (t *transition) note(err error) {
	if err != nil && t.fault == nil {
		t.fault = err
	}
}

// observe takes in the elapsed time that a command carries and gives the state machine's: the highest ever seen, which
// never goes back when leadership moves.
func (t *transition) observe(elapsedMs int64) int64 {
	if elapsedMs <= t.image.ElapsedMs {
		return t.image.ElapsedMs
	}
	t.image = t.image.With(func(next *image.Image) { next.ElapsedMs = elapsedMs })
	t.batch.Set(state.SpaceMetadata, []byte{keyElapsed}, encodeNumber(elapsedMs))
	return elapsedMs
}

func (t *transition) initCluster(cmd command.InitCluster) (any, error) {
	if cmd.ClusterID.IsZero() {
		return nil, fmt.Errorf("a cluster id must not be zero: %w", kafka.InvalidRequest)
	}
	if t.image.ClusterID.IsZero() {
		t.image = t.image.With(func(next *image.Image) { next.ClusterID = cmd.ClusterID })
		t.batch.Set(state.SpaceMetadata, []byte{keyCluster}, cmd.ClusterID[:])
	}
	return t.image.ClusterID, nil
}

func (t *transition) registerBroker(cmd command.RegisterBroker) (any, error) {
	if cmd.ID < 0 {
		return nil, fmt.Errorf("%d is not a broker id: %w", cmd.ID, kafka.InvalidRequest)
	}
	broker := &image.Broker{
		ID:          cmd.ID,
		Epoch:       int64(t.index),
		Incarnation: cmd.Incarnation,
		Rack:        cmd.Rack,
		Listeners:   imageEndpoints(cmd.Listeners),
		Directories: cmd.Directories,
	}
	t.image = t.image.WithBroker(broker)
	t.batch.Set(state.SpaceMetadata, brokerKey(cmd.ID), encodeBroker(broker))
	t.delta.BrokersChanged = append(t.delta.BrokersChanged, cmd.ID)
	t.settleDirectories(broker)
	return command.BrokerRegistration{Epoch: broker.Epoch}, nil
}

func (t *transition) allocateProducerIDs(cmd command.AllocateProducerIDs) (any, error) {
	if cmd.Count < 1 || cmd.Count > command.MaxProducerIDBlock {
		return nil, fmt.Errorf("a block of %d producer ids cannot be given: %w", cmd.Count, kafka.InvalidRequest)
	}
	block := command.ProducerIDBlock{First: t.image.NextProducerID, End: t.image.NextProducerID + int64(cmd.Count)}
	t.image = t.image.With(func(next *image.Image) { next.NextProducerID = block.End })
	t.batch.Set(state.SpaceMetadata, []byte{keyNextProducer}, encodeNumber(block.End))
	return block, nil
}

func (t *transition) setNextProducerID(cmd command.SetNextProducerID) (any, error) {
	if cmd.AtLeast < 0 {
		return nil, fmt.Errorf("%d is not a producer id: %w", cmd.AtLeast, kafka.InvalidRequest)
	}
	if cmd.AtLeast > t.image.NextProducerID {
		t.image = t.image.With(func(next *image.Image) { next.NextProducerID = cmd.AtLeast })
		t.batch.Set(state.SpaceMetadata, []byte{keyNextProducer}, encodeNumber(cmd.AtLeast))
	}
	return t.image.NextProducerID, nil
}

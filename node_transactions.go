package firn

import (
	"context"
	"time"

	"github.com/firnlog/firn/broker/replica"
	"github.com/firnlog/firn/broker/txn"
	"github.com/firnlog/firn/metastore/state"
)

// newTransactions makes the coordinator of the transactions whose journals this broker leads.
func (n *Node) newTransactions() *txn.Coordinator {
	return txn.New(txn.Options{
		Store:  coordinatorStore{n.state.Space(state.SpaceCoordinator)},
		Logger: n.logger, Registerer: n.deps.Registry,
		ProducerIDs: n.producerIDs, Markers: markers{n}, Config: n.config.Transactions,
	})
}

// markers ends transactions in the partitions of this broker.
type markers struct{ node *Node }

// markerTimeout bounds the wait for the replicas of a partition that a marker was written to. It is written again then.
const markerTimeout = 30 * time.Second

// Write implements txn.Markers.
func (m markers) Write(ctx context.Context, list []txn.Marker) []error {
	converted := make([]replica.Marker, len(list))
	for i, marker := range list {
		converted[i] = replica.Marker{
			TopicPartition: marker.Partition,
			ProducerID:     marker.Producer.ID, ProducerEpoch: marker.Producer.Epoch,
			Type: marker.Type, CoordinatorEpoch: int32(marker.CoordinatorEpoch),
			TransactionVersion: int8(marker.Version),
		}
	}
	return m.node.replicas.WriteMarkers(ctx, converted, markerTimeout)
}

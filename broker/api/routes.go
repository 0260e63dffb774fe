package api

import "github.com/firnlog/firn/broker/wire"

// table is the one place that says which API is served by what. It has the keys of wire's versions table, no more and
// no fewer: a test compares them.
func (h *Handlers) table() map[int16]route {
	return map[int16]route{
		wire.KeyProduce:                    h.produce,
		wire.KeyFetch:                      h.fetch,
		wire.KeyListOffsets:                h.listOffsets,
		wire.KeyMetadata:                   h.metadata,
		wire.KeyFindCoordinator:            h.findCoordinator,
		wire.KeyApiVersions:                h.apiVersions,
		wire.KeyCreateTopics:               h.createTopics,
		wire.KeyDeleteTopics:               h.deleteTopics,
		wire.KeyDeleteRecords:              h.deleteRecords,
		wire.KeyInitProducerID:             h.initProducerID,
		wire.KeyOffsetForLeaderEpoch:       h.offsetForLeaderEpoch,
		wire.KeyDescribeConfigs:            h.describeConfigs,
		wire.KeyIncrementalAlterConfigs:    h.incrementalAlterConfigs,
		wire.KeyCreatePartitions:           h.createPartitions,
		wire.KeyDescribeCluster:            h.describeCluster,
		wire.KeySASLHandshake:              h.saslHandshake,
		wire.KeyAlterConfigs:               h.alterConfigs,
		wire.KeyDescribeLogDirs:            h.describeLogDirs,
		wire.KeyElectLeaders:               h.electLeaders,
		wire.KeyAlterPartitionAssignments:  h.alterPartitionAssignments,
		wire.KeyListPartitionReassignments: h.listPartitionReassignments,
		wire.KeyDescribeQuorum:             h.describeQuorum,
		wire.KeyDescribeProducers:          h.describeProducers,
		wire.KeyUnregisterBroker:           h.unregisterBroker,
		wire.KeyListConfigResources:        h.listConfigResources,
		wire.KeyDescribeTopicPartitions:    h.describeTopicPartitions,
		wire.KeyOffsetCommit:               h.offsetCommit,
		wire.KeyOffsetFetch:                h.offsetFetch,
		wire.KeyJoinGroup:                  h.joinGroup,
		wire.KeyHeartbeat:                  h.heartbeat,
		wire.KeyLeaveGroup:                 h.leaveGroup,
		wire.KeySyncGroup:                  h.syncGroup,
		wire.KeyDescribeGroups:             h.describeGroups,
		wire.KeyListGroups:                 h.listGroups,
		wire.KeyDeleteGroups:               h.deleteGroups,
		wire.KeyOffsetDelete:               h.offsetDelete,
		wire.KeyConsumerGroupHeartbeat:     h.consumerGroupHeartbeat,
		wire.KeyConsumerGroupDescribe:      h.consumerGroupDescribe,
	}
}

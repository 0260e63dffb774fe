package wire

import "math"

// API describes one served API: which versions are advertised, which are served, and how big a request may be.
type API struct {
	Key int16
	// Name is Kafka's, as in its metrics.
	Name string
	// Min and Max are the advertised range. Max is also the highest version served.
	Min, Max int16
	// ServedFrom is the lowest version that is served. It differs from Min for Produce only: librdkafka looks at the low
	// end of the advertised range to decide whether it may compress at all (apache/kafka#18727), although no broker of
	// the 4.x line accepts Produce below 3.
	ServedFrom int16
	// FlexibleFrom is the first version with compact lengths and tagged fields (KIP-482).
	FlexibleFrom int16
	// MaxRequestBytes bounds a frame of this API on top of socket.request.max.bytes; 0 means no bound of its own. Only
	// Produce carries record data, so nothing else has a reason to be large.
	MaxRequestBytes int32
}

// Keys of the served APIs, as the protocol numbers them.
const (
	KeyProduce                 int16 = 0
	KeyFetch                   int16 = 1
	KeyListOffsets             int16 = 2
	KeyMetadata                int16 = 3
	KeyFindCoordinator         int16 = 10
	KeyApiVersions             int16 = 18
	KeyCreateTopics            int16 = 19
	KeyDeleteTopics            int16 = 20
	KeyDeleteRecords           int16 = 21
	KeyInitProducerID          int16 = 22
	KeyOffsetForLeaderEpoch    int16 = 23
	KeyDescribeConfigs         int16 = 32
	KeyCreatePartitions        int16 = 37
	KeyIncrementalAlterConfigs int16 = 44
	KeyDescribeCluster         int16 = 60

	KeySASLHandshake              int16 = 17
	KeyAlterConfigs               int16 = 33
	KeyAlterReplicaLogDirs        int16 = 34
	KeyDescribeLogDirs            int16 = 35
	KeyElectLeaders               int16 = 43
	KeyAlterPartitionAssignments  int16 = 45
	KeyListPartitionReassignments int16 = 46
	KeyDescribeQuorum             int16 = 55
	KeyDescribeProducers          int16 = 61
	KeyUnregisterBroker           int16 = 64
	KeyWriteTxnMarkers            int16 = 27
	KeyListConfigResources        int16 = 74
	KeyDescribeTopicPartitions    int16 = 75

	KeyOffsetCommit   int16 = 8
	KeyOffsetFetch    int16 = 9
	KeyJoinGroup      int16 = 11
	KeyHeartbeat      int16 = 12
	KeyLeaveGroup     int16 = 13
	KeySyncGroup      int16 = 14
	KeyDescribeGroups int16 = 15
	KeyListGroups     int16 = 16
	KeyDeleteGroups   int16 = 42
	KeyOffsetDelete   int16 = 47

	KeyConsumerGroupHeartbeat int16 = 68
	KeyConsumerGroupDescribe  int16 = 69

	KeyAddPartitionsToTxn   int16 = 24
	KeyAddOffsetsToTxn      int16 = 25
	KeyEndTxn               int16 = 26
	KeyTxnOffsetCommit      int16 = 28
	KeyDescribeTransactions int16 = 65
	KeyListTransactions     int16 = 66
)

const (
	// maxSmallRequest bounds requests that hold a few fields and no lists.
	maxSmallRequest = 64 << 10
	// maxListRequest bounds requests that list topics and partitions: 8 MiB is more than 200 000 partitions of Fetch.
	maxListRequest = 8 << 20
)

// noVersion is the FlexibleFrom of an API that never becomes flexible.
const noVersion int16 = math.MaxInt16

// served is the one table of what this broker speaks, sorted by key. The ranges are those of Apache Kafka 4.2, because
// clients guess a broker's release from exact maxima: a mixed set would lead them down untested branches.
var served = [...]API{
	{KeyProduce, "Produce", 0, 13, 3, 9, 0},
	{KeyFetch, "Fetch", 4, 18, 4, 12, maxListRequest},
	{KeyListOffsets, "ListOffsets", 1, 11, 1, 6, maxListRequest},
	{KeyMetadata, "Metadata", 0, 13, 0, 9, maxListRequest},
	{KeyOffsetCommit, "OffsetCommit", 2, 10, 2, 8, maxListRequest},
	{KeyOffsetFetch, "OffsetFetch", 1, 10, 1, 6, maxListRequest},
	{KeyFindCoordinator, "FindCoordinator", 0, 6, 0, 3, maxListRequest},
	{KeyJoinGroup, "JoinGroup", 0, 9, 0, 6, maxListRequest},
	{KeyHeartbeat, "Heartbeat", 0, 4, 0, 4, maxSmallRequest},
	{KeyLeaveGroup, "LeaveGroup", 0, 5, 0, 4, maxListRequest},
	{KeySyncGroup, "SyncGroup", 0, 5, 0, 4, maxListRequest},
	{KeyDescribeGroups, "DescribeGroups", 0, 6, 0, 5, maxListRequest},
	{KeyListGroups, "ListGroups", 0, 5, 0, 3, maxListRequest},
	{KeySASLHandshake, "SaslHandshake", 0, 1, 0, noVersion, maxSmallRequest},
	{KeyApiVersions, "ApiVersions", 0, 4, 0, 3, maxSmallRequest},
	{KeyCreateTopics, "CreateTopics", 2, 7, 2, 5, maxListRequest},
	{KeyDeleteTopics, "DeleteTopics", 1, 6, 1, 4, maxListRequest},
	{KeyDeleteRecords, "DeleteRecords", 0, 2, 0, 2, maxListRequest},
	{KeyInitProducerID, "InitProducerId", 0, 5, 0, 2, maxSmallRequest},
	{KeyOffsetForLeaderEpoch, "OffsetForLeaderEpoch", 2, 4, 2, 4, maxListRequest},
	{KeyAddPartitionsToTxn, "AddPartitionsToTxn", 0, 5, 0, 3, maxListRequest},
	{KeyAddOffsetsToTxn, "AddOffsetsToTxn", 0, 4, 0, 3, maxSmallRequest},
	{KeyEndTxn, "EndTxn", 0, 5, 0, 3, maxSmallRequest},
	{KeyWriteTxnMarkers, "WriteTxnMarkers", 1, 2, 1, 1, maxListRequest},
	{KeyTxnOffsetCommit, "TxnOffsetCommit", 0, 5, 0, 3, maxListRequest},
	{KeyDescribeConfigs, "DescribeConfigs", 1, 4, 1, 4, maxListRequest},
	{KeyAlterConfigs, "AlterConfigs", 0, 2, 0, 2, maxListRequest},
	{KeyAlterReplicaLogDirs, "AlterReplicaLogDirs", 1, 2, 1, 2, maxListRequest},
	{KeyDescribeLogDirs, "DescribeLogDirs", 1, 4, 1, 2, maxListRequest},
	{KeyCreatePartitions, "CreatePartitions", 0, 3, 0, 2, maxListRequest},
	{KeyDeleteGroups, "DeleteGroups", 0, 2, 0, 2, maxListRequest},
	{KeyElectLeaders, "ElectLeaders", 0, 2, 0, 2, maxListRequest},
	{KeyIncrementalAlterConfigs, "IncrementalAlterConfigs", 0, 1, 0, 1, maxListRequest},
	{KeyAlterPartitionAssignments, "AlterPartitionReassignments", 0, 1, 0, 0, maxListRequest},
	{KeyListPartitionReassignments, "ListPartitionReassignments", 0, 0, 0, 0, maxListRequest},
	{KeyOffsetDelete, "OffsetDelete", 0, 0, 0, noVersion, maxListRequest},
	{KeyDescribeQuorum, "DescribeQuorum", 0, 2, 0, 0, maxListRequest},
	{KeyDescribeCluster, "DescribeCluster", 0, 2, 0, 0, maxSmallRequest},
	{KeyDescribeProducers, "DescribeProducers", 0, 0, 0, 0, maxListRequest},
	{KeyUnregisterBroker, "UnregisterBroker", 0, 0, 0, 0, maxSmallRequest},
	{KeyDescribeTransactions, "DescribeTransactions", 0, 0, 0, 0, maxListRequest},
	{KeyListTransactions, "ListTransactions", 0, 2, 0, 0, maxListRequest},
	{KeyConsumerGroupHeartbeat, "ConsumerGroupHeartbeat", 0, 1, 0, 0, maxListRequest},
	{KeyConsumerGroupDescribe, "ConsumerGroupDescribe", 0, 1, 0, 0, maxListRequest},
	{KeyListConfigResources, "ListConfigResources", 0, 1, 0, 0, maxSmallRequest},
	{KeyDescribeTopicPartitions, "DescribeTopicPartitions", 0, 0, 0, 0, maxListRequest},
}

// APIs returns the served APIs sorted by key: what ApiVersions advertises.
func APIs() []API { return append([]API(nil), served[:]...) }

// LookupAPI finds a served API by its key.
func LookupAPI(key int16) (API, bool) {
	for i := range served {
		if served[i].Key == key {
			return served[i], true
		}
	}
	return API{}, false
}

// Serves tells whether requests of the version are handled.
func (a API) Serves(version int16) bool { return version >= a.ServedFrom && version <= a.Max }

// Flexible tells whether the version has compact lengths and tagged fields.
func (a API) Flexible(version int16) bool { return version >= a.FlexibleFrom }

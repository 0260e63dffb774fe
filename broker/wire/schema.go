package wire

import (
	"math"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What follows describes the request bodies that kmsg decodes, in just enough detail to know beforehand how much memory
// the decoding will take. A structure ends with its tagged fields where the version is flexible.

type fieldKind uint8

const (
	kindFixed fieldKind = iota // size bytes, stored in the structure itself
	kindString
	kindNullableString
	kindBytes // what kmsg does not copy
	kindArray
	kindNullableArray
	kindNullableStructure // one byte: −1 is null
)

// anyVersion is the upper bound of a field that no version has dropped so far.
const anyVersion int16 = math.MaxInt16

// field is one field of a request body, present in the versions from up to and including until: Kafka counts protocol
// versions inclusively everywhere.
type field struct {
	kind        fieldKind
	size        int // kindFixed: bytes on the wire
	from, until int16
	// nullableFrom is the first version in which a nullable field may really be null.
	nullableFrom int16
	elements     []field // arrays: the fields of an element
	// elementMemory is what kmsg allocates for one element of an array.
	elementMemory int
	// plain says that the elements are bare values: no structure, hence no tagged fields.
	plain bool
}

const (
	sizeBool, sizeInt8, sizeInt16, sizeInt32, sizeInt64, sizeUUID = 1, 1, 2, 4, 8, 16

	sizeofString = int(unsafe.Sizeof(""))
	// tagMemory is charged for one unknown tagged field: kmsg keeps them in maps, whose growth is paid for as well.
	tagMemory = 192
	// tagMapMemory is charged once for every structure that has unknown tagged fields: the smallest map.
	tagMapMemory = 512
	// allocationUnit is what the allocator may add to a small string by rounding up to its size class.
	allocationUnit = 16
)

func fixed(size int) field { return field{kind: kindFixed, size: size, until: anyVersion} }

func str() field { return field{kind: kindString, until: anyVersion} }

func nullableStr(from int16) field {
	return field{kind: kindNullableString, until: anyVersion, nullableFrom: from}
}

func byteString() field { return field{kind: kindBytes, until: anyVersion} }

func array(memory uintptr, elements ...field) field {
	return field{kind: kindArray, until: anyVersion, elements: elements, elementMemory: int(memory)}
}

func plainArray(memory int, element field) field {
	return field{kind: kindArray, until: anyVersion, elements: []field{element}, elementMemory: memory, plain: true}
}

// nullableStructure is a structure that may be null; memory is what kmsg allocates for it.
func nullableStructure(memory uintptr, fields ...field) field {
	return field{kind: kindNullableStructure, until: anyVersion, elements: fields, elementMemory: int(memory)}
}

// orNull lets an array be null from a version on.
func (f field) orNull(from int16) field {
	f.kind, f.nullableFrom = kindNullableArray, from
	return f
}

func (f field) since(version int16) field {
	f.from = version
	return f
}

func (f field) upTo(version int16) field {
	f.until = version
	return f
}

func int32Array() field  { return plainArray(sizeInt32, fixed(sizeInt32)) }
func stringArray() field { return plainArray(sizeofString, str()) }

// layouts holds the request bodies that kmsg decodes, by API key. Produce is not among them: its body is never decoded,
// see ProduceView. The table is never written to.
var layouts = map[int16][]field{
	KeyFetch:       fetchLayout(),
	KeyListOffsets: listOffsetsLayout(),
	KeyMetadata: {
		array(unsafe.Sizeof(kmsg.MetadataRequestTopic{}),
			fixed(sizeUUID).since(10), nullableStr(10),
		).orNull(1),
		fixed(sizeBool).since(4), fixed(sizeBool).since(8).upTo(10), fixed(sizeBool).since(8),
	},
	KeyFindCoordinator: {
		str().upTo(3), fixed(sizeInt8).since(1), stringArray().since(4),
	},
	KeyApiVersions:  {str().since(3), str().since(3)},
	KeyCreateTopics: createTopicsLayout(),
	KeyDeleteTopics: {
		stringArray().upTo(5),
		array(unsafe.Sizeof(kmsg.DeleteTopicsRequestTopic{}), nullableStr(6), fixed(sizeUUID)).since(6),
		fixed(sizeInt32),
	},
	KeyDeleteRecords: {
		array(unsafe.Sizeof(kmsg.DeleteRecordsRequestTopic{}), str(),
			array(unsafe.Sizeof(kmsg.DeleteRecordsRequestTopicPartition{}), fixed(sizeInt32), fixed(sizeInt64)),
		),
		fixed(sizeInt32),
	},
	KeyInitProducerID: {
		nullableStr(0), fixed(sizeInt32), fixed(sizeInt64).since(3), fixed(sizeInt16).since(3),
	},
	KeyOffsetForLeaderEpoch: {
		fixed(sizeInt32).since(3),
		array(unsafe.Sizeof(kmsg.OffsetForLeaderEpochRequestTopic{}), str(),
			array(unsafe.Sizeof(kmsg.OffsetForLeaderEpochRequestTopicPartition{}),
				fixed(sizeInt32), fixed(sizeInt32).since(2), fixed(sizeInt32)),
		),
	},
	KeyDescribeConfigs: {
		array(unsafe.Sizeof(kmsg.DescribeConfigsRequestResource{}),
			fixed(sizeInt8), str(), stringArray().orNull(0),
		),
		fixed(sizeBool).since(1), fixed(sizeBool).since(3),
	},
	KeyCreatePartitions: {
		array(unsafe.Sizeof(kmsg.CreatePartitionsRequestTopic{}), str(), fixed(sizeInt32),
			array(unsafe.Sizeof(kmsg.CreatePartitionsRequestTopicAssignment{}), int32Array()).orNull(0),
		),
		fixed(sizeInt32), fixed(sizeBool),
	},
	KeyIncrementalAlterConfigs: {
		array(unsafe.Sizeof(kmsg.IncrementalAlterConfigsRequestResource{}), fixed(sizeInt8), str(),
			array(unsafe.Sizeof(kmsg.IncrementalAlterConfigsRequestResourceConfig{}),
				str(), fixed(sizeInt8), nullableStr(0)),
		),
		fixed(sizeBool),
	},
	KeyDescribeCluster: {fixed(sizeBool), fixed(sizeInt8).since(1), fixed(sizeBool).since(2)},
	KeySASLHandshake:   {str()},
	KeyAlterConfigs: {
		array(unsafe.Sizeof(kmsg.AlterConfigsRequestResource{}), fixed(sizeInt8), str(),
			array(unsafe.Sizeof(kmsg.AlterConfigsRequestResourceConfig{}), str(), nullableStr(0)),
		),
		fixed(sizeBool),
	},
	KeyAlterReplicaLogDirs: {
		array(unsafe.Sizeof(kmsg.AlterReplicaLogDirsRequestDir{}), str(), topicsWithPartitions()),
	},
	KeyDescribeLogDirs: {topicsWithPartitions().orNull(0)},
	KeyElectLeaders: {
		fixed(sizeInt8).since(1), topicsWithPartitions().orNull(0),
		fixed(sizeInt32),
	},
	KeyAlterPartitionAssignments: {
		fixed(sizeInt32), fixed(sizeBool).since(1),
		array(unsafe.Sizeof(kmsg.AlterPartitionAssignmentsRequestTopic{}), str(),
			array(unsafe.Sizeof(kmsg.AlterPartitionAssignmentsRequestTopicPartition{}),
				fixed(sizeInt32), int32Array().orNull(0)),
		),
	},
	KeyListPartitionReassignments: {
		fixed(sizeInt32),
		topicsWithPartitions().orNull(0),
	},
	KeyDescribeQuorum: {
		array(unsafe.Sizeof(kmsg.DescribeQuorumRequestTopic{}), str(),
			array(unsafe.Sizeof(kmsg.DescribeQuorumRequestTopicPartition{}), fixed(sizeInt32)),
		),
	},
	KeyDescribeProducers: {topicsWithPartitions()},
	KeyWriteTxnMarkers: {
		array(unsafe.Sizeof(kmsg.WriteTxnMarkersRequestMarker{}), fixed(sizeInt64), fixed(sizeInt16), fixed(sizeBool),
			array(unsafe.Sizeof(kmsg.WriteTxnMarkersRequestMarkerTopic{}), str(), int32Array()), fixed(sizeInt32),
			fixed(sizeInt8).since(2),
		),
	},
	KeyUnregisterBroker:    {fixed(sizeInt32)},
	KeyListConfigResources: {plainArray(sizeInt8, fixed(sizeInt8)).since(1)},
	KeyOffsetCommit:        offsetCommitLayout(),
	KeyOffsetFetch:         offsetFetchLayout(),
	KeyDescribeGroups:      {stringArray(), fixed(sizeBool).since(3)},
	KeyListGroups:          {stringArray().since(4), stringArray().since(5)},
	KeyDeleteGroups:        {stringArray()},
	KeyOffsetDelete: {
		str(), array(unsafe.Sizeof(kmsg.OffsetDeleteRequestTopic{}), str(),
			array(unsafe.Sizeof(kmsg.OffsetDeleteRequestTopicPartition{}), fixed(sizeInt32)),
		),
	},
	KeyJoinGroup: {
		str(), fixed(sizeInt32), fixed(sizeInt32).since(1), str(), nullableStr(5).since(5), str(),
		array(unsafe.Sizeof(kmsg.JoinGroupRequestProtocol{}), str(), byteString()), nullableStr(8).since(8),
	},
	KeyHeartbeat: {str(), fixed(sizeInt32), str(), nullableStr(3).since(3)},
	KeyLeaveGroup: {
		str(), str().upTo(2),
		array(unsafe.Sizeof(kmsg.LeaveGroupRequestMember{}), str(), nullableStr(3), nullableStr(5).since(5)).since(3),
	},
	KeySyncGroup: {
		str(), fixed(sizeInt32), str(), nullableStr(3).since(3), nullableStr(5).since(5), nullableStr(5).since(5),
		array(unsafe.Sizeof(kmsg.SyncGroupRequestGroupAssignment{}), str(), byteString()),
	},
	KeyConsumerGroupHeartbeat: {
		str(), str(), fixed(sizeInt32), nullableStr(0), nullableStr(0), fixed(sizeInt32), stringArray().orNull(0),
		nullableStr(0).since(1), nullableStr(0),
		array(unsafe.Sizeof(kmsg.ConsumerGroupHeartbeatRequestTopic{}), fixed(sizeUUID), int32Array()).orNull(0),
	},
	KeyAddPartitionsToTxn: {
		array(unsafe.Sizeof(kmsg.AddPartitionsToTxnRequestTransaction{}), str(), fixed(sizeInt64), fixed(sizeInt16),
			fixed(sizeBool), topicsWithPartitions()).since(4),
		str().upTo(3), fixed(sizeInt64).upTo(3), fixed(sizeInt16).upTo(3), topicsWithPartitions().upTo(3),
	},
	KeyAddOffsetsToTxn:      {str(), fixed(sizeInt64), fixed(sizeInt16), str()},
	KeyEndTxn:               {str(), fixed(sizeInt64), fixed(sizeInt16), fixed(sizeBool)},
	KeyTxnOffsetCommit:      txnOffsetCommitLayout(),
	KeyDescribeTransactions: {stringArray()},
	KeyListTransactions: {
		stringArray(), plainArray(sizeInt64, fixed(sizeInt64)), fixed(sizeInt64).since(1), nullableStr(2).since(2),
	},
	KeyConsumerGroupDescribe: {stringArray(), fixed(sizeBool)},
	KeyDescribeTopicPartitions: {
		array(unsafe.Sizeof(kmsg.DescribeTopicPartitionsRequestTopic{}), str()), fixed(sizeInt32),
		nullableStructure(unsafe.Sizeof(kmsg.DescribeTopicPartitionsRequestCursor{}), str(), fixed(sizeInt32)),
	},
}

// topicsWithPartitions is the most frequent list: names of topics, and for each the numbers of partitions. kmsg has a
// type of its own for each API that has it, all of them alike.
func topicsWithPartitions() field {
	return array(unsafe.Sizeof(kmsg.DescribeLogDirsRequestTopic{}), str(), int32Array())
}

func fetchLayout() []field {
	partition := array(unsafe.Sizeof(kmsg.FetchRequestTopicPartition{}),
		fixed(sizeInt32), fixed(sizeInt32).since(9), fixed(sizeInt64), fixed(sizeInt32).since(12),
		fixed(sizeInt64).since(5), fixed(sizeInt32))
	return []field{
		fixed(sizeInt32).upTo(14), fixed(sizeInt32), fixed(sizeInt32), fixed(sizeInt32).since(3),
		fixed(sizeInt8).since(4), fixed(sizeInt32).since(7), fixed(sizeInt32).since(7),
		array(unsafe.Sizeof(kmsg.FetchRequestTopic{}), str().upTo(12), fixed(sizeUUID).since(13), partition),
		array(unsafe.Sizeof(kmsg.FetchRequestForgottenTopic{}),
			str().upTo(12), fixed(sizeUUID).since(13), int32Array()).since(7),
		str().since(11),
	}
}

func listOffsetsLayout() []field {
	return []field{
		fixed(sizeInt32), fixed(sizeInt8).since(2),
		array(unsafe.Sizeof(kmsg.ListOffsetsRequestTopic{}), str(),
			array(unsafe.Sizeof(kmsg.ListOffsetsRequestTopicPartition{}),
				fixed(sizeInt32), fixed(sizeInt32).since(4), fixed(sizeInt64)),
		),
		fixed(sizeInt32).since(10),
	}
}

func createTopicsLayout() []field {
	return []field{
		array(unsafe.Sizeof(kmsg.CreateTopicsRequestTopic{}), str(), fixed(sizeInt32), fixed(sizeInt16),
			array(unsafe.Sizeof(kmsg.CreateTopicsRequestTopicReplicaAssignment{}), fixed(sizeInt32), int32Array()),
			array(unsafe.Sizeof(kmsg.CreateTopicsRequestTopicConfig{}), str(), nullableStr(0)),
		),
		fixed(sizeInt32), fixed(sizeBool).since(1),
	}
}

func offsetCommitLayout() []field {
	return []field{
		str(), fixed(sizeInt32).since(1), str().since(1), nullableStr(7).since(7), fixed(sizeInt64).since(2).upTo(4),
		array(unsafe.Sizeof(kmsg.OffsetCommitRequestTopic{}), str().upTo(9), fixed(sizeUUID).since(10),
			array(unsafe.Sizeof(kmsg.OffsetCommitRequestTopicPartition{}), fixed(sizeInt32), fixed(sizeInt64),
				fixed(sizeInt64).since(1).upTo(1), fixed(sizeInt32).since(6), nullableStr(0)),
		),
	}
}

func txnOffsetCommitLayout() []field {
	return []field{
		str(), str(), fixed(sizeInt64), fixed(sizeInt16), fixed(sizeInt32).since(3), str().since(3), nullableStr(3).since(3),
		array(unsafe.Sizeof(kmsg.TxnOffsetCommitRequestTopic{}), str(),
			array(unsafe.Sizeof(kmsg.TxnOffsetCommitRequestTopicPartition{}), fixed(sizeInt32), fixed(sizeInt64),
				fixed(sizeInt32).since(2), nullableStr(0)),
		),
	}
}

func offsetFetchLayout() []field {
	return []field{
		str().upTo(7),
		array(unsafe.Sizeof(kmsg.OffsetFetchRequestTopic{}), str(), int32Array()).orNull(2).upTo(7),
		array(unsafe.Sizeof(kmsg.OffsetFetchRequestGroup{}), str(), nullableStr(9).since(9), fixed(sizeInt32).since(9),
			array(unsafe.Sizeof(kmsg.OffsetFetchRequestGroupTopic{}),
				str().upTo(9), fixed(sizeUUID).since(10), int32Array()).orNull(8),
		).since(8),
		fixed(sizeBool).since(7),
	}
}

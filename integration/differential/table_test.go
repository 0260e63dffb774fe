package differential

import (
	"fmt"
	"slices"
	"strings"

	"github.com/firnlog/firn/internal/config"
)

// differences is everything in which answers differ from those of Apache Kafka 4.4. The comparison fails on one that is
// not here, and on an entry that no longer occurs.
func differences() []difference {
	return slices.Concat(clusterDifferences(), topicDifferences(), recordDifferences(), settingDifferences(),
		brokerSettingDifferences())
}

// Reasons that several differences have.
const (
	notServed       = "not served: share and streams groups, quotas, security and Kafka's inner traffic"
	release         = "the versions of 4.2, as clients guess a release from exact maxima"
	bugOfKafka      = "Kafka stumbles over it; a client is better served with an error that says what is wrong"
	wordsHelp       = "a person is told in words what is wrong; Kafka gives the code only"
	atOnce          = "a topic is created before the answer; Kafka answers first, and the client asks again"
	noELR           = "Kafka's eligible leader replicas set a cluster-wide min.insync.replicas; there are none here"
	readAtStart     = "what is read at the start cannot change while the node runs"
	ofTheTest       = "what a node of Kafka needs to be set, and where either keeps its data and listens"
	wholeBatches    = "batches always go out whole; Kafka cuts the last one where the bytes end"
	strictRecords   = "what a reader would stumble over is refused when it is written"
	noOtherReplicas = "there are no other replicas yet: who says to be one is served as a consumer"
)

func clusterDifferences() []difference {
	return []difference{
		{"ApiVersions/*", "ApiKeys[*]", "present", "absent", notServed},
		{"ApiVersions/*", "ApiKeys[*].MaxVersion", "", "", release},
		{"ApiVersions/*", "SupportedFeatures[*]", "present", "absent",
			"a feature level is a promise of what is served; the levels come with it"},
		{"ApiVersions/*", "FinalizedFeatures[*]", "present", "absent", "as the supported ones"},
		{"ApiVersions/*", "SupportedFeatures[metadata.version].M*Version", "", "29", release},
		{"ApiVersions/*", "FinalizedFeatures[metadata.version].M*VersionLevel", "33", "29", release},
		{"Metadata/automatic creation/allowed", "Topics[auto].ErrorCode", "UNKNOWN_TOPIC_OR_PARTITION", "NONE", atOnce},
		{"Metadata/automatic creation/allowed", "Topics[auto].Partitions[0]", "absent", "present", atOnce},
		{"Metadata/automatic creation/allowed", "Topics[auto].TopicID", "zero id", "id of auto", atOnce},
		{"Metadata/automatic creation/a name that collides", "Topics[*].ErrorCode", "UNKNOWN_TOPIC_OR_PARTITION",
			"INVALID_TOPIC_EXCEPTION", atOnce},
		{"Metadata/topics by id/zero id", "*", "", "", bugOfKafka},
		{"DescribeTopicPartitions/pages/empty name", "Topics[*].*", "", "", bugOfKafka},
		{"DescribeQuorum/the quorum/of the metadata", "Nodes[1].Listeners[*]", "", "",
			"the metadata quorum has no listener of its own that tools could reach"},
	}
}

func topicDifferences() []difference {
	const perRequest = "the 10 000 are counted in partitions; Kafka counts records of its log, of which the topic is one"
	const inOneRequest = "Kafka compares with the topics there are, not with those of the same request"
	return []difference{
		{"CreateTopics/bad ones/as many partitions as one request may add", "Topics[*]*", "", "", perRequest},
		{"CreateTopics/bad ones/an internal topic", "Topics[__consumer_offsets]*", "", "",
			"the coordinators make their topics themselves; what a client made could have any number of partitions"},
		{"CreateTopics/several at once/two that collide", "Topics[e_f]*", "", "", inOneRequest},
		{"CreateTopics/*", "Topics[*].Configs[min.insync.replicas].Source", "3", "5", noELR},
		{"CreateTopics/settings/*", "Topics[*].Configs[*].Value", "", "",
			"values are kept in one form: `compact,delete` for `compact, delete`, `true` for `TRUE`"},
		{"DeleteTopics/by name and id/the same by name and by id", "Topics[c].TopicID", "id of c", "zero id",
			"the error repeats the topic as it was named first"},
		{"AlterPartitionReassignments/*", "ErrorMessage", "present", "null",
			"there is no error that a text could explain"},
		{"DescribeLogDirs/malformed/a body of ones", "*.Size", "", "",
			"it asks for all logs, of which some hold what only one of the two has accepted"},
		{"ElectLeaders/malformed/a body of ones", "*", "", "",
			"an election takes no time, so a negative timeout cannot run out"},
	}
}

func recordDifferences() []difference {
	const duplicates = "each is answered; Kafka takes the last one alone"
	return []difference{
		{"Produce/*", "Topics[*].Partitions[*].ErrorMessage", "null", "present", wordsHelp},
		{"Produce/malformed/bytes behind it", "answer", "present", "connection closed",
			"a request that is longer than it says is not trusted with records"},
		{"Produce/damaged batches/no records", "answer", "no answer", "present", bugOfKafka},
		{"Produce/damaged batches/bytes behind the batch", "*", "", "", strictRecords},
		{"Produce/damaged batches/a gap in the offsets that the header hides", "*", "", "", strictRecords},
		{"Produce/damaged batches/the timestamp type LogAppendTime", "*", "", "",
			"only the broker sets it; Kafka minds only where the topic says LogAppendTime"},
		{"Produce/damaged batches/a codec that does not exist", "*", "", "", bugOfKafka},
		{"Produce/damaged batches/gzip that is none", "*.ErrorCode", "UNKNOWN_SERVER_ERROR", "INVALID_RECORD", bugOfKafka},
		{"Produce/codecs/* cut short", "*.ErrorCode", "UNKNOWN_SERVER_ERROR", "INVALID_RECORD", bugOfKafka},
		{"Produce/codec corners/lz4 with the header checksum of old clients*", "*.ErrorCode", "UNKNOWN_SERVER_ERROR",
			"INVALID_RECORD", bugOfKafka},
		{"Produce/idempotent sequences/a negative epoch of an unknown producer", "*", "", "", strictRecords},
		{"Produce/settings of the topic/LogAppendTime and the type set", "*.ErrorRecords[*]", "present", "absent",
			"the batch as a whole is at fault, not each of its records"},
		{"Produce/targets/the same partition twice", "*", "", "", duplicates},
		{"Produce/targets/the same topic twice", "*", "", "", duplicates},
		{"Fetch/committed and aborted records/*batch", "*.AbortedTransactions[1]", "present", "absent",
			"those that overlap the records that are sent; Kafka knows where these end only roughly"},
		{"Fetch/targets/the same partition twice", "*", "", "", duplicates},
		{"Fetch/targets/as a replica that does not exist", "*", "", "", noOtherReplicas},
		{"Fetch/offsets/an isolation level that does not exist", "*", "", "",
			"it reads uncommitted records; Kafka stumbles over it"},
		{"Fetch/bounds/negative*", "*", "", "", "negative bounds are none; Kafka stumbles over them"},
		{"Fetch/bounds/less than two batches*", "*.RecordBatches[1]", "present", "absent", wholeBatches},
	}
}

func settingDifferences() []difference {
	const unknownNames = "no plug-ins read settings of their own: a name that is not known is a slip"
	const noMetrics = "there are no client metrics to be configured"
	const groupLists = "Kafka takes no setting of groups for a list"
	const noLoggers = "there are no loggers by name whose level could be set"
	return []difference{
		{"AlterConfigs/a topic/the same topic twice", "answer", "no answer", "present", bugOfKafka},
		{"AlterConfigs/the broker/broker \"\": set", "Resources[0].Error*", "", "", noELR},
		{"AlterConfigs/the broker/*what does not exist", "Resources[*].Error*", "", "", unknownNames},
		{"IncrementalAlterConfigs/the broker/*what does not exist", "Resources[*].Error*", "", "", unknownNames},
		{"IncrementalAlterConfigs/a topic/an operation that does not exist", "Resources[*].Error*", "", "", bugOfKafka},
		{"*AlterConfigs/a topic/settings after *", "Resources[*].Configs[min.insync.replicas]*", "", "", noELR},
		{"DescribeConfigs/*", "Resources[*].Configs[min.insync.replicas]*", "", "", noELR},
		{"DescribeConfigs/other resources/type 16", "*", "", "", noMetrics},
		{"IncrementalAlterConfigs/a topic/client metrics", "*", "", "", noMetrics},
		{"IncrementalAlterConfigs/a group/append", "Resources[*].Error*", "", "", groupLists},
		{"IncrementalAlterConfigs/a group/subtract", "Resources[*].Error*", "", "", groupLists},
		{"IncrementalAlterConfigs/a topic/a logger", "*", "", "INVALID_REQUEST", noLoggers},
		{"ListConfigResources/*", "ConfigResources[1 of type 8]", "present", "absent",
			noLoggers},
	}
}

// brokerSettingDifferences are those of the broker's own settings. Those whose default is another one on purpose say
// so themselves.
func brokerSettingDifferences() []difference {
	const all = "DescribeConfigs/the broker/all"
	of := func(name string) string { return fmt.Sprintf("Resources[1].Configs[%s]*", name) }
	list := []difference{
		{all, "Resources[1].Configs[*].ReadOnly", "false", "true", readAtStart},
		{all, of("firn.*"), "absent", "present", "what Kafka has no name for"},
		{all, of("log.dirs"), "", "", ofTheTest},
		{all, of("controller.quorum.voters"), "", "", ofTheTest},
		{all, of("*.throttled.rate"), "absent", "present", "Kafka takes it, but does not tell it"},
		{all, of("replica.alter.log.dirs.io.max.bytes.per.second"), "absent", "present", "as the one above"},
	}
	for _, setting := range config.Departures() {
		list = append(list, difference{all, of(setting.Name), "", "", strings.TrimSuffix(setting.Reason, ".")})
	}
	return list
}

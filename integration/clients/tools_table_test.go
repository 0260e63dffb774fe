//go:build integration

package clients

import (
	"cmp"
	"slices"
)

// toolClasses are the classes behind the scripts, below org.apache.kafka.tools.
var toolClasses = map[string]string{
	"kafka-acls":                      "AclCommand",
	"kafka-broker-api-versions":       "BrokerApiVersionsCommand",
	"kafka-client-metrics":            "ClientMetricsCommand",
	"kafka-cluster":                   "ClusterTool",
	"kafka-configs":                   "ConfigCommand",
	"kafka-console-consumer":          "consumer.ConsoleConsumer",
	"kafka-console-producer":          "ConsoleProducer",
	"kafka-console-share-consumer":    "consumer.ConsoleShareConsumer",
	"kafka-consumer-groups":           "consumer.group.ConsumerGroupCommand",
	"kafka-consumer-perf-test":        "ConsumerPerformance",
	"kafka-delegation-tokens":         "DelegationTokenCommand",
	"kafka-delete-records":            "DeleteRecordsCommand",
	"kafka-dump-log":                  "DumpLogSegments",
	"kafka-e2e-latency":               "EndToEndLatency",
	"kafka-features":                  "FeatureCommand",
	"kafka-get-offsets":               "GetOffsetShell",
	"kafka-groups":                    "GroupsCommand",
	"kafka-leader-election":           "LeaderElectionCommand",
	"kafka-log-dirs":                  "LogDirsCommand",
	"kafka-metadata-quorum":           "MetadataQuorumCommand",
	"kafka-producer-perf-test":        "ProducerPerformance",
	"kafka-reassign-partitions":       "reassign.ReassignPartitionsCommand",
	"kafka-share-consumer-perf-test":  "ShareConsumerPerformance",
	"kafka-share-groups":              "consumer.group.ShareGroupCommand",
	"kafka-streams-application-reset": "StreamsResetter",
	"kafka-streams-groups":            "streams.StreamsGroupCommand",
	"kafka-topics":                    "TopicCommand",
	"kafka-transactions":              "TransactionsCommand",
	"kafka-verifiable-consumer":       "VerifiableConsumer",
	"kafka-verifiable-share-consumer": "VerifiableShareConsumer",
}

// Why commands do not do what they are asked to.
const (
	forShares   = "waits for share groups"
	forSecurity = "waits for security and quotas"
	fixedLevels = "(the levels come with what they are levels of)"
	noMetrics   = "(there are no client metrics to be configured)"
	noLoggers   = "(there are no loggers by name)"
)

// unsupported is what a client says of an API that is not advertised.
func unsupported(api string) string { return `(?s)The node does not support ` + api }

// toolCommands are the cells of the table tool × command, in the order in which they are run: some need what those
// before them have done.
func toolCommands() []toolCommand {
	return slices.Concat(topicCommands(), recordCommands(), offsetCommands(), laterTopicCommands(), topicConfigCommands(),
		brokerConfigCommands(), otherConfigCommands(), clusterCommands(), quorumCommands(), partitionCommands(),
		transactionCommands(), groupCommands(), shareCommands(), securityCommands())
}

func topicCommands() []toolCommand {
	const tool = "kafka-topics"
	return []toolCommand{
		{tool: tool, command: "--create --partitions 1", more: "--topic flights --config retention.ms=-1",
			wants: `^Created topic flights\.\n$`},
		{tool: tool, command: "--create --replica-assignment 1,1", more: "--topic placed",
			wants: `^Created topic placed\.\n$`},
		{tool: tool, command: "--create --if-not-exists", more: "--topic flights", wants: `^$`},
		{tool: tool, command: "--list", wants: `^__transaction_state\nflights\nhistory\nhung\nopen\nplaced\n$`},
		{tool: tool, command: "--list --exclude-internal", wants: `^flights\nhistory\nhung\nopen\nplaced\n$`},
	}
}

func recordCommands() []toolCommand {
	const perf, writer, reader = "kafka-producer-perf-test", "kafka-console-producer", "kafka-console-consumer"
	const flights, many = "--topic flights", "--topic flights --num-records 200 --record-size 100 --throughput -1"
	const show = " --formatter-property print.offset=true --formatter-property print.key=true " +
		"--formatter-property print.headers=true"
	var all []toolCommand
	for _, codec := range codecs {
		all = append(all, toolCommand{tool: perf, command: "--command-property compression.type=" + string(codec), more: many,
			wants: `^200 records sent, .*\n$`})
	}
	return append(all, []toolCommand{
		{tool: writer, command: "--compression-codec lz4", more: "--topic flights --reader-property parse.key=true",
			stdin: "key\tvalue\n", wants: `^$`},
		{tool: writer, command: "--reader-property parse.headers=true", stdin: "a:1,b:NULL\tkey\tNULL\n",
			more:  "--topic flights --sync --reader-property parse.key=true --reader-property null.marker=NULL",
			wants: `^$`},
		{tool: reader, command: "--partition 0 --offset 999", more: flights + " --max-messages 3" + show,
			wants: `^Offset:999\tNO_HEADERS\tnull\t[A-Z]{100}\nOffset:1000\tNO_HEADERS\tkey\tvalue\n` +
				`Offset:1001\ta:1,b:null\tkey\tnull\nProcessed a total of 3 messages\n$`},
		{tool: reader, command: "--partition 0 --offset earliest", more: flights + " --max-messages 1",
			wants: `^[A-Z]{100}\nProcessed a total of 1 messages\n$`},
		{tool: reader, command: "--partition 0 --offset latest", more: flights + " --timeout-ms 500",
			wants: `(?s)^[^\n]* ERROR .*TimeoutException\nProcessed a total of 0 messages\n$`},
		{tool: reader, command: "--partition 0 --isolation-level read_committed",
			more:  flights + " --from-beginning --max-messages 1002 --formatter-property print.value=false",
			wants: `^Processed a total of 1002 messages\n$`},
		{tool: reader, command: "--from-beginning",
			more:  flights + " --max-messages 1002 --formatter-property print.value=false",
			wants: `Processed a total of 1002 messages\n$`},
		{tool: "kafka-verifiable-producer", command: "--max-messages", process: true},
		{tool: "kafka-replica-verification", command: "--topics-include", process: true},
		{tool: "kafka-dump-log", command: "--print-data-log", more: "--files DATA/log/flights-0/00000000000000000000.log",
			wants: `(?s)^Dumping .*\nLog starting offset: 0\nbaseOffset: 0 .* compresscodec: none .*\n\| offset: 0 .*` +
				` compresscodec: gzip .* compresscodec: snappy .* compresscodec: lz4 .* compresscodec: zstd .*` +
				`\n\| offset: 1001 .* headerKeys: \[a,b\] key: key\n$`},
		{tool: "kafka-dump-log", command: "--deep-iteration", process: true},
		{tool: "kafka-dump-log", command: "--index-sanity-check", process: true},
		{tool: "kafka-dump-log", command: "--verify-index-only", process: true},
	}...)
}

func offsetCommands() []toolCommand {
	const tool = "kafka-get-offsets"
	return []toolCommand{
		{tool: tool, command: "--topic flights", wants: `^flights:0:1002\n$`},
		{tool: tool, command: "--topic-partitions", more: "fl.*:0-1,history:0", wants: `^flights:0:1002\nhistory:0:3\n$`},
		{tool: tool, command: "--time latest", more: "--exclude-internal-topics",
			wants: `^flights:0:1002\nhistory:0:3\nhung:0:1\nopen:0:1\nplaced:0:0\nplaced:1:0\n$`},
		{tool: tool, command: "--time max-timestamp", more: "--topic flights", wants: `^flights:0:1001\n$`},
		{tool: tool, command: "--time 1700000000001", more: "--topic history", wants: `^history:0:1\n$`},
		{tool: tool, command: "--time earliest", more: "--topic history", wants: `^history:0:0\n$`},
		{tool: tool, command: "--time earliest-local", more: "--topic history", wants: `^history:0:0\n$`},
		{tool: tool, command: "--time latest-tiered", more: "--topic history", wants: `^history:0:1\n$`},
		{tool: tool, command: "--time earliest-pending-upload", more: "--topic history", wants: `^history:0:2\n$`},
		{tool: "kafka-delete-records", command: "--offset-json-file", more: "FILES/deletion.json",
			wants: `partition: flights-0\tlow_watermark: 300\n$`},
		{tool: tool, command: "--time -2", more: "--topic flights", wants: `^flights:0:300\n$`},
		{tool: "kafka-log-dirs", command: "--describe",
			wants: `"partition":"history-0","size":[1-9]\d*,"offsetLag":0,`,
		},
		{tool: "kafka-log-dirs", command: "--describe --topic-list flights", more: "--broker-list 1",
			wants: `\n\{"brokers":\[\{"broker":1,"logDirs":\[\{"partitions":\[\{"partition":"flights-0","size":[1-9]\d*,` +
				`"offsetLag":0,"isFuture":false\}\],"error":null,"logDir":"[^"]+"\}\]\}\],"version":1\}\n$`},
	}
}

func laterTopicCommands() []toolCommand {
	const tool = "kafka-topics"
	const flights = "--topic flights"
	line := func(partition string) string {
		return `\tTopic: flights\tPartition: ` + partition + `\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: \n`
	}
	return []toolCommand{
		{tool: tool, command: "--alter --partitions 2", more: flights, wants: `^$`},
		{tool: tool, command: "--describe", more: flights,
			wants: `^Topic: flights\tTopicId: [\w-]{22}\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: retention\.ms=-1\n` +
				line("0") + line("1") + `$`},
		{tool: tool, command: "--describe --topics-with-overrides",
			wants: `^(Topic: (__consumer_offsets|__transaction_state|history|flights)\t.*\n){4}$`},
		{tool: tool, command: "--describe --under-replicated-partitions", wants: `^$`},
		{tool: tool, command: "--describe --under-min-isr-partitions", wants: `^$`},
		{tool: tool, command: "--describe --at-min-isr-partitions", more: flights, wants: `^` + line("0") + line("1") + `$`},
		{tool: tool, command: "--describe --unavailable-partitions", wants: `^$`},
		{tool: tool, command: "--delete", more: "--topic placed", wants: `^$`},
		{tool: tool, command: "--describe --if-exists", more: "--topic placed", wants: `^$`},
	}
}

func topicConfigCommands() []toolCommand {
	const tool = "kafka-configs"
	const flights = "--entity-name flights"
	return []toolCommand{
		{tool: tool, command: "--alter --entity-type topics --add-config", more: "segment.bytes=1048576 " + flights,
			wants: `^Completed updating config for topic flights\.\n$`},
		{tool: tool, command: "--describe --entity-type topics", more: flights,
			wants: `^Dynamic configs for topic flights are:\n  retention.ms=-1 sensitive=false synonyms=.*\n  ` +
				`segment.bytes=1048576 sensitive=false synonyms=\{DYNAMIC_TOPIC_CONFIG:segment.bytes=1048576, .*\n$`},
		{tool: tool, command: "--alter --entity-type topics --delete-config", more: "segment.bytes " + flights,
			wants: `^Completed updating config for topic flights\.\n$`},
		{tool: tool, command: "--describe --entity-type topics --all", more: flights,
			wants: `(?s)^All configs for topic flights are:\n  cleanup.policy=delete .*\n  segment.bytes=1073741824 .*\n$`},
		{tool: tool, command: "--describe --topic flights",
			wants: `^Dynamic configs for topic flights are:\n  retention.ms=-1 .*\n$`},
	}
}

func brokerConfigCommands() []toolCommand {
	const tool = "kafka-configs"
	const one = "--entity-name 1"
	return []toolCommand{
		{tool: tool, command: "--alter --entity-type brokers --add-config", more: "log.retention.ms=8640000 " + one,
			wants: `^Completed updating config for broker 1\.\n$`},
		{tool: tool, command: "--alter --entity-type brokers --entity-default --add-config",
			more:  "log.retention.ms=86400000",
			wants: `^Completed updating default config for brokers in the cluster\.\n$`},
		{tool: tool, command: "--describe --entity-type brokers", more: one,
			wants: `^Dynamic configs for broker 1 are:\n  log.retention.ms=8640000 .*` +
				`DYNAMIC_BROKER_CONFIG:log.retention.ms=8640000, ` +
				`DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=86400000, DEFAULT_CONFIG:log.retention.hours=168\}\n$`},
		{tool: tool, command: "--describe --entity-type brokers --entity-default",
			wants: `^Default configs for brokers in the cluster are:\n  log.retention.ms=86400000 .*\n$`},
		{tool: tool, command: "--alter --entity-type brokers --delete-config", more: "log.retention.ms " + one,
			wants: `^Completed updating config for broker 1\.\n$`},
		{tool: tool, command: "--alter --entity-type brokers --entity-default --delete-config", more: "log.retention.ms",
			wants: `^Completed updating default config for brokers in the cluster\.\n$`},
		{tool: tool, command: "--describe --broker-defaults", wants: `^Default configs for brokers in the cluster are:\n$`},
		{tool: tool, command: "--describe --entity-type brokers --all", more: one,
			wants: `(?s)^All configs for broker 1 are:\n  .*\n  log.retention.ms=null .*\n  node.id=1 .*\n$`},
	}
}

func otherConfigCommands() []toolCommand {
	const tool = "kafka-configs"
	return []toolCommand{
		{tool: tool, command: "--describe --entity-type client-metrics", wants: `^$`},
		{tool: tool, command: "--alter --entity-type client-metrics", more: "--entity-name m --add-config interval.ms=1000",
			wants: `InvalidRequestException: resource type 16 has no settings here`, lacks: noMetrics},
		{tool: tool, command: "--describe --entity-type broker-loggers", more: "--entity-name 1",
			wants: `InvalidRequestException: resource type 8 has no settings here`, lacks: noLoggers},
		{tool: tool, command: "--describe --entity-type groups", more: "--entity-name g",
			wants: `^The group 'g' doesn't exist and doesn't have dynamic config\.\n$`},
		{tool: tool, command: "--alter --entity-type groups --add-config", wants: `^Completed updating config for group g\.\n$`,
			more: "consumer.session.timeout.ms=50000 --entity-name g"},
		{tool: tool, command: "--describe --entity-type groups --entity-name", more: "g",
			wants: `^Dynamic configs for group g are:\n  consumer\.session\.timeout\.ms=50000 sensitive=false ` +
				`synonyms=\{DYNAMIC_GROUP_CONFIG:consumer\.session\.timeout\.ms=50000, ` +
				`DEFAULT_CONFIG:group\.consumer\.session\.timeout\.ms=45000\}\n$`},
		{tool: tool, command: "--alter --entity-type groups --delete-config",
			wants: `^Completed updating config for group g\.\n$`,
			more:  "consumer.session.timeout.ms --entity-name g"},
		{tool: tool, command: "--describe --entity-type users", wants: unsupported("DESCRIBE_CLIENT_QUOTAS"),
			lacks: forSecurity},
		{tool: tool, command: "--alter --entity-type users", more: "--entity-name u --add-config SCRAM-SHA-256=[password=p]",
			wants: unsupported("ALTER_USER_SCRAM_CREDENTIALS"), lacks: forSecurity},
		{tool: tool, command: "--describe --entity-type clients", wants: unsupported("DESCRIBE_CLIENT_QUOTAS"),
			lacks: forSecurity},
		{tool: tool, command: "--describe --entity-type ips", wants: unsupported("DESCRIBE_CLIENT_QUOTAS"),
			lacks: forSecurity},
		{tool: "kafka-client-metrics", command: "--list", wants: `^\n$`},
		{tool: "kafka-client-metrics", command: "--describe", wants: `^$`},
		{tool: "kafka-client-metrics", command: "--alter", more: "--name m --interval 1000 --metrics x",
			wants: `resource type 16 has no settings here`, lacks: noMetrics},
	}
}

func clusterCommands() []toolCommand {
	const cluster, features = "kafka-cluster", "kafka-features"
	const broker = "--bootstrap-server BROKERS "
	return []toolCommand{
		{tool: "kafka-broker-api-versions", wants: `(?s)\(id: 1 rack: null isFenced: false\) -> \(\n` +
			`\tProduce\(0\): 0 to 13 \[usable: 13\],\n.*\tJoinGroup\(11\): 0 to 9 \[usable: 9\],\n` +
			`.*\tDescribeAcls\(29\): UNSUPPORTED,\n.*\)\n$`},
		{tool: cluster, command: "cluster-id", more: broker, wants: `^Cluster ID: [\w-]{22}\n$`},
		{tool: cluster, command: "list-endpoints", more: broker + "--include-fenced-brokers",
			wants: `^ID +HOST .*\n1 +127\.0\.0\.1 +\d+ +null +unfenced +broker +\n$`},
		{tool: cluster, command: "unregister --id 1", more: broker, wants: `InvalidRequestException: broker 1 is alive`,
			lacks: "(the only broker is never forgotten)"},
		{tool: features, command: "describe", wants: `^Feature: group\.version .* FinalizedVersionLevel: 1 .*\n` +
			`Feature: metadata\.version\s+SupportedMinVersion: 4\.2-IV1\s+SupportedMaxVersion: 4\.2-IV1\s+` +
			`FinalizedVersionLevel: 4\.2-IV1\s+Epoch: 0\n` +
			`Feature: transaction\.version .* FinalizedVersionLevel: 2 .*\n$`},
		{tool: features, command: "version-mapping", wants: `^metadata\.version=33 `},
		{tool: features, command: "feature-dependencies", more: "--feature transaction.version=2",
			wants: `^transaction\.version=2 has no dependencies\.\n$`},
		{tool: features, command: "upgrade --feature group.version=1", wants: unsupported("UPDATE_FEATURES"),
			lacks: fixedLevels},
		{tool: features, command: "downgrade --feature group.version=0", wants: unsupported("UPDATE_FEATURES"),
			lacks: fixedLevels},
		{tool: features, command: "disable --feature group.version", wants: unsupported("UPDATE_FEATURES"),
			lacks: fixedLevels},
	}
}

func quorumCommands() []toolCommand {
	const tool = "kafka-metadata-quorum"
	return []toolCommand{
		{tool: tool, command: "describe --status",
			wants: `(?s)^ClusterId: +[\w-]{22}\nLeaderId: +1\n.*CurrentVoters: +\[\{"id": 1, .*CurrentObservers: +\[\]\n$`},
		{tool: tool, command: "describe --replication", wants: `^NodeId\t.*\n1 +\t[\w-]{22}\t\d+ +\t0 .*\tLeader\t\n$`},
		{tool: tool, command: "describe --replication --human-readable", wants: ` ms ago +\tLeader\t\n$`},
		{tool: tool, command: "remove-controller", lacks: "(the metadata quorum is this node)",
			more:  "--controller-id 2 --controller-directory-id AAAAAAAAAAAAAAAAAAAAAQ",
			wants: unsupported("REMOVE_RAFT_VOTER")},
	}
}

func partitionCommands() []toolCommand {
	const election, reassign = "kafka-leader-election", "kafka-reassign-partitions"
	const assignment = `\{"version":1,"partitions":\[\{"topic":"flights","partition":0,"replicas":\[1\],"log_dirs":`
	return []toolCommand{
		{tool: election, command: "--election-type preferred", more: "--topic flights --partition 0",
			wants: `^Valid replica already elected for partitions flights-0\n$`},
		{tool: election, command: "--election-type unclean", more: "--topic flights --partition 0",
			wants: `^Valid replica already elected for partitions flights-0\n$`},
		{tool: election, command: "--election-type preferred --all-topic-partitions", wants: `^$`},
		{tool: reassign, command: "--list", wants: `^No partition reassignments found\.\n$`},
		{tool: reassign, command: "--generate", more: "--topics-to-move-json-file FILES/topics.json --broker-list 1",
			wants: `(?s)^Current partition replica assignment\n` + assignment + `.*\nProposed .*\n` + assignment},
		{tool: reassign, command: "--execute", more: "--reassignment-json-file FILES/same.json",
			wants: `\nSuccessfully started partition reassignment for flights-0\n$`},
		{tool: reassign, command: "--verify", more: "--reassignment-json-file FILES/same.json",
			wants: `\nReassignment of partition flights-0 is completed\.\n`},
		{tool: reassign, command: "--cancel", more: "--reassignment-json-file FILES/same.json",
			wants: `^None of the specified partition reassignments are active\.\n`},
	}
}

// transactionCommands find a transaction that its producer has left, in the topic open, and one that its coordinator knows
// nothing of, in the topic hung, and leave both ended.
func transactionCommands() []toolCommand {
	const tool, reader, open = "kafka-transactions", "kafka-console-consumer", "--topic open --partition 0"
	return []toolCommand{
		{tool: "kafka-producer-perf-test", command: "--transactional-id t", wants: `^200 records sent, .*\n$`,
			more: "--topic accounts --num-records 200 --record-size 100 --throughput -1"},
		{tool: tool, command: "describe-producers", more: "--topic flights --partition 0",
			wants: `^ProducerId\t.*\n(\d+ +\t0 +\t-1 +\t\d+ +\t\d+\tNone +\t\n){7}$`},
		{tool: tool, command: "find-hanging --topic flights --partition 0", wants: `^Topic\tPartition\t.*\n$`},
		{tool: tool, command: "find-hanging --topic", more: "hung --partition 0",
			wants: `^Topic\tPartition\t.*\nhung +\t0 +\t\d+ +\t0 +\t.*\n$`},
		{tool: tool, command: "abort --start-offset", more: "0 --topic hung --partition 0", wants: `^$`},
		{tool: tool, command: "find-hanging --partition", more: "0 --topic hung", wants: `^Topic\tPartition\t.*\n$`},
		{tool: tool, command: "find-hanging --broker-id 1", wants: `^Topic\tPartition\t.*\n$`},
		{tool: tool, command: "describe", more: "--transactional-id open",
			wants: `\n1 +\topen +\t\d+ +\t0 +\tOngoing +\t600000 .*\topen-0 +\t\n$`},
		{tool: tool, command: "abort", more: open + " --start-offset 0", wants: `^$`},
		{tool: tool, command: "forceTerminateTransaction", more: "--transactionalId open", wants: `^$`},
		{tool: tool, command: "list", wants: `^TransactionalId\t.*\n((open|hung) +\t1 +\t\d+ +\tEmpty +\t\n|` +
			`t +\t1 +\t\d+ +\tCompleteCommit +\t\n){3}$`},
		{tool: reader, command: "--isolation-level read_committed",
			more: "--topic accounts --group committed --from-beginning --max-messages 200 " +
				"--formatter-property print.value=false",
			wants: `Processed a total of 200 messages\n$`},
		{tool: reader, command: "--formatter org.apache.kafka.tools.consumer.TransactionLogMessageFormatter",
			more:  "--topic __transaction_state --from-beginning --timeout-ms 2000",
			wants: `(?s)\{"key":\{"type":0,"data":\{"transactionalId":"t"\}\},"value":\{"version":1,"data":.*"CompleteCommit"`},
		{tool: "kafka-dump-log", command: "--transaction-log-decoder",
			more:  "--files DATA/log/__transaction_state-16/00000000000000000000.log",
			wants: `payload: .*"transactionStatus":"CompleteCommit"`},
	}
}

func groupCommands() []toolCommand {
	const tool, reader = "kafka-consumer-groups", "kafka-console-consumer"
	const history, shell, value = "--topic history ", "--group shell ", " --formatter-property print.value=false"
	const offsets = "--topic __consumer_offsets --from-beginning --timeout-ms 2000"
	return []toolCommand{
		{tool: reader, command: "--group shell", more: history + "--from-beginning --max-messages 2" + value,
			wants: `Processed a total of 2 messages\n$`},
		{tool: reader, command: "--command-property group.protocol=consumer", wants: `Processed a total of 1 messages\n$`,
			more: history + "--group next --from-beginning --max-messages 1" + value},
		{tool: "kafka-groups", command: "--list",
			wants: `(?s)^GROUP .*\n(next +Consumer|shell +Classic) +consumer +\n.*\n(next +Consumer|shell +Classic) `},
		{tool: tool, command: "--list", wants: `(?s)^(.*\n)?(next|shell)\n(.*\n)?(next|shell)\n`},
		{tool: tool, command: "--list --state", more: "--type classic", wants: `\nshell +Classic +Empty +\n`},
		{tool: tool, command: "--describe", more: shell, wants: `\nshell +history +0 +2 +3 +1 +- +- +-\n`},
		{tool: tool, command: "--describe --members", more: shell,
			wants: `Consumer group 'shell' has no active members\.\n$`},
		{tool: tool, command: "--describe --state", more: shell, wants: `\nshell +.* \(1\) +- +Empty +0\n`},
		{tool: tool, command: "--reset-offsets --dry-run", more: history + shell + "--to-earliest",
			wants: `\nshell +history +0 +0 *\n$`},
		{tool: tool, command: "--reset-offsets --execute", more: history + "--group next --shift-by 1",
			wants: `\nnext +history +0 +2 *\n$`},
		{tool: tool, command: "--delete-offsets", more: history + "--group next", wants: `\nhistory +0 +Successful *\n$`},
		{tool: reader, command: "--formatter org.apache.kafka.tools.consumer.OffsetsMessageFormatter", more: offsets,
			wants: `\{"group":"shell","topic":"history","partition":0\}\},"value":\{"version":4,"data":\{"offset":2,`},
		{tool: reader, command: "--formatter org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter", more: offsets,
			wants: `\{"group":"shell"\}\},"value":\{"version":3,"data":\{"protocolType":"consumer","generation":1,`},
		{tool: "kafka-dump-log", command: "--offsets-decoder",
			more:  "--files DATA/log/__consumer_offsets-46/00000000000000000000.log",
			wants: `key: .*"group":"shell","topic":"history","partition":0.* payload: .*"offset":2,`},
		{tool: tool, command: "--delete", more: shell, wants: `^Deletion of requested consumer groups \('shell'\) was`},
		{tool: "kafka-consumer-perf-test", command: "--num-records 10", more: "--topic accounts --timeout 5000",
			wants: `^start\.time, .*\n.*, \d+\.\d+, 200, `},
		{tool: "kafka-e2e-latency", command: "--num-records 10", more: "--topic echo --producer-acks all --record-size 100",
			wants: `Percentiles: 50th = \d+, `},
		{tool: "kafka-verifiable-consumer", command: "--group-id g", more: "--topic accounts --max-messages 10",
			wants: `"name":"records_consumed","count":`},
		{tool: "kafka-streams-application-reset", command: "--application-id a", more: "--input-topics history",
			wants: `\nTopic: history Partition: 0 Offset: 0\n`},
		{tool: "kafka-streams-groups", command: "--list", wants: `^$`},
	}
}

func shareCommands() []toolCommand {
	const history = "--topic history "
	var all []toolCommand
	for _, c := range []toolCommand{
		{tool: "kafka-share-groups", command: "--describe", more: "--group g", wants: unsupported("SHARE_GROUP_DESCRIBE")},
		{tool: "kafka-share-consumer-perf-test", command: "--num-records 10", more: history + "--timeout 2000"},
		{tool: "kafka-verifiable-share-consumer", command: "--group-id g", more: history + "--max-messages 10"},
		{tool: "kafka-console-share-consumer", command: "--group g", more: history + "--timeout-ms 200"},
	} {
		c.wants, c.lacks = cmp.Or(c.wants, unsupported("SHARE_GROUP_HEARTBEAT")), forShares
		all = append(all, c)
	}
	return all
}

func securityCommands() []toolCommand {
	const config = "--command-config FILES/admin.properties"
	return []toolCommand{
		{tool: "kafka-acls", command: "--list", wants: unsupported("DESCRIBE_ACLS"), lacks: forSecurity},
		{tool: "kafka-acls", command: "--add", more: "--allow-principal User:u --operation read --topic flights",
			wants: unsupported("DESCRIBE_ACLS"), lacks: forSecurity},
		{tool: "kafka-delegation-tokens", command: "--create", more: "--max-life-time-period -1 " + config,
			wants: unsupported("CREATE_DELEGATION_TOKEN"), lacks: forSecurity},
		{tool: "kafka-delegation-tokens", command: "--describe", more: config,
			wants: unsupported("DESCRIBE_DELEGATION_TOKEN"), lacks: forSecurity},
	}
}

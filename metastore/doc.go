// Package metastore holds the cluster's metadata: a log of commands on hashicorp/raft and the state machine that
// applies them to an immutable image and to the broker's state database.
//
// The root package opens and runs the Store; api, replica and tiering see it through small interfaces of their own:
// they propose commands, read the image and watch it change. The state machine reads no clock and draws no random
// number: every node that applies the same commands has the same state. The package knows nothing of logs on disk,
// buckets or Kafka's requests.
//
// Metrics: firn_metastore_commands_total, _propose_seconds, _applied_index, _leader.
package metastore

package config

// brokerTransactionRows are the settings of transactions.
func brokerTransactionRows() []row {
	return []row{
		{"add.partitions.to.txn.retry.backoff.max.ms", Int, "100", ReadOnly, atLeast(0), NoEffect, ""},
		{"add.partitions.to.txn.retry.backoff.ms", Int, "20", ReadOnly, atLeast(1), NoEffect, ""},
		{"transaction.abort.timed.out.transaction.cleanup.interval.ms", Int, "10000", ReadOnly, atLeast(1), Acts,
			"Milliseconds between two looks for transactions that are past their time."},
		{"transaction.max.timeout.ms", Int, "900000", ReadOnly, atLeast(1), Acts,
			"Longest timeout of a transaction."},
		{"transaction.partition.verification.enable", Boolean, "true", ClusterWide, nil, Acts,
			"Whether a partition's part in a transaction is verified before it is written to; clients of Produce 12 and " +
				"later make it a part by writing."},
		{"transaction.remove.expired.transaction.cleanup.interval.ms", Int, "3600000", ReadOnly, atLeast(1), Acts,
			"Milliseconds between two looks for expired transactional ids."},
		{"transaction.state.log.load.buffer.size", Int, "5242880", ReadOnly, atLeast(1), NoEffect, ""},
		{"transaction.state.log.min.isr", Int, "2", ReadOnly, atLeast(1), Acts,
			"min.insync.replicas of the transaction topic; no more than it has replicas."},
		{"transaction.state.log.num.partitions", Int, "50", ReadOnly, atLeast(1), Acts,
			"Partitions of the transaction topic, which is made at its first use."},
		{"transaction.state.log.replication.factor", Short, "3", ReadOnly, atLeast(1), Acts,
			"Replicas of the transaction topic; with fewer brokers there are as many as brokers."},
		{"transaction.state.log.segment.bytes", Int, "104857600", ReadOnly, atLeast(1), Acts,
			"Size of a segment of the transaction topic."},
		{"transaction.two.phase.commit.enable", Boolean, "false", ReadOnly, nil, NoEffect, ""},
		{"transactional.id.expiration.ms", Int, "604800000", ReadOnly, atLeast(1), Acts,
			"Milliseconds after which an unused transactional id is forgotten."},
	}
}

package config

// brokerTopicRows are the settings of topics in general.
func brokerTopicRows() []row {
	return []row{
		{"alter.config.policy.class.name", Class, null, ReadOnly, nil, NoEffect,
			"No Java classes are loaded; every valid setting is accepted."},
		{"auto.create.topics.enable", Boolean, "true", ReadOnly, nil, Acts,
			"Whether a topic that a client asks for and that is missing is created on the way."},
		{"create.topic.policy.class.name", Class, null, ReadOnly, nil, NoEffect,
			"No Java classes are loaded; every valid topic is accepted."},
		{"default.replication.factor", Int, "1", ReadOnly, nil, Acts,
			"Replicas of a topic that is created without a number."},
		{"delete.topic.enable", Boolean, "true", ReadOnly, nil, Acts,
			"Whether topics may be deleted."},
		{"errors.deadletterqueue.auto.create.topics.enable", Boolean, "false", ClusterWide, nil, NoEffect, ""},
		{"errors.deadletterqueue.topic.name.prefix", String, "dlq.", ClusterWide, nil, NoEffect, ""},
		{"max.request.partition.size.limit", Int, "2000", ReadOnly, atLeast(1), NoEffect, ""},
		{"num.partitions", Int, "1", ReadOnly, atLeast(1), Acts,
			"Partitions of a topic that is created without a number."},
	}
}

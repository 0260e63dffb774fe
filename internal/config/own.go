package config

// Prefix starts the name of every setting that Kafka has no name for.
const Prefix = "firn."

// ownRows are firn's own settings. None may be called like a setting of Kafka with Prefix before it, since the
// environment knows only one name for both.
func ownRows() []row {
	return []row{
		{"firn.data.dir", String, "./firn-data", ReadOnly, notEmpty, Acts,
			"The directory under which everything of the node lies: log, metadata, bucket, cache."},
		{"firn.http.listener", String, "127.0.0.1:9644", ReadOnly, notEmpty, Acts,
			"HOST:PORT of /metrics, /healthz, /readyz and the JSON API."},
		{"firn.http.pprof", Boolean, "false", ReadOnly, nil, Acts,
			"Whether the HTTP listener also serves Go's profiles under /debug/pprof."},
		{"firn.object.store", String, "file://./firn-data/bucket", ReadOnly, notEmpty, Acts,
			"URL of the object store: s3://BUCKET/PREFIX?endpoint=URL&path_style=true&region=NAME, minio:// likewise, or " +
				"file:///DIRECTORY."},
		{"firn.remote.storage.default", Boolean, "false", ReadOnly, nil, Acts,
			"Whether a new topic that does not say otherwise, and whose settings allow it, gets remote.storage.enable=true; " +
				"true where firn.object.store is set. Internal topics never do."},
		{"firn.log.flush.policy", String, "auto", ReadOnly, oneOf("auto", "os", "group"), Acts,
			"When an append with acks=all is safe: group waits for a flush that it shares with others, os leaves it to the " +
				"system, auto is group while one replica is in sync."},
		{"firn.metrics.partitions.max", Int, "1000", ReadOnly, atLeast(0), Acts,
			"Partitions above which /metrics leaves out the series of single partitions."},
		{"firn.log.dirs.reserve.bytes", Long, "268435456", ReadOnly, atLeast(0), Acts,
			"Free bytes of a log directory's disk below which produce requests are turned away."},
		{"firn.record.validation", String, "full", ReadOnly, oneOf("full", "header"), Acts,
			"Whether the records inside a compressed batch are checked, or its header and checksum only."},
		{"firn.socket.max.requests.in.flight", Int, "15", ReadOnly, between(1, 100000), Acts,
			"Requests of one connection that may wait for their answer before the next one is read."},
		{"firn.socket.max.answer.bytes", Long, "134217728", ReadOnly, atLeast(1), Acts,
			"Bytes of answers that may wait for one connection before its next request is read."},
		{"firn.tier.upload.deadline.ms", Long, "300000", ReadOnly, atLeast(1000), Acts,
			"Milliseconds after which the upload of one segment is given up; less than firn.tier.reservation.ms."},
		{"firn.tier.reservation.ms", Long, "900000", ReadOnly, atLeast(2000), Acts,
			"Milliseconds for which the name of an upload is reserved; what was uploaded under a lapsed one is removed."},
		{"firn.tier.roll.ms", Long, "-1", ClusterWide, rollMs, Acts,
			"Milliseconds that a record of a tiered topic waits at most until its segment is sealed, and copied to the object " +
				"store, however small it is; at least 1000, -1 seals by segment.bytes and segment.ms alone."},
		{"firn.tier.gc.grace.ms", Long, "900000", ReadOnly, atLeast(0), Acts,
			"Milliseconds that an object stays after the last reference to it went, since readers may hold it."},
		{"firn.tier.scrub.interval.ms", Long, "604800000", ReadOnly, atLeast(0), Acts,
			"Milliseconds from one comparison of the object store with the manifests to the next; 0 compares only when asked."},
		{"firn.tier.scrub.depth", String, "listing", ReadOnly, oneOf("listing", "tails", "data"), Acts,
			"How closely such a comparison looks: listing finds what is missing or unknown, tails reads the end of each " +
				"object, data reads everything."},
		{"firn.tier.verify.max.bytes.per.second", Long, "52428800", ReadOnly, atLeast(0), Acts,
			"Bytes a second that a comparison reads of objects at most; 0 is no limit."},
		{"firn.tier.checkpoint.interval.ms", Long, "60000", ReadOnly, atLeast(1000), Acts,
			"Milliseconds between two checkpoints of the cluster in the object store, if anything has changed."},
		{"firn.tier.fetch.memory.bytes", Long, "134217728", ReadOnly, atLeast(8 << 20), Acts,
			"Bytes of memory for what was read from the object store and for what is being read."},
		{"firn.tier.cache.bytes", Long, "-1", ReadOnly, atLeast(-1), Acts,
			"Bytes of local disk for what is read from the object store again and again; 0 keeps nothing there. -1 is 10 GiB, " +
				"or nothing if the object store is a folder."},
		{"firn.tier.read.ahead.bytes", Long, "33554432", ReadOnly, atLeast(0), Acts,
			"Largest number of bytes that are read from the object store ahead of one reader."},
	}
}

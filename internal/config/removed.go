package config

import "strings"

// removedSetting finds a setting that Kafka had and that 4.4 no longer has. Its Doc says what replaced it.
func removedSetting(name string) (Setting, bool) {
	doc, ok := removed()[name]
	if !ok {
		switch {
		case strings.HasPrefix(name, "zookeeper."):
			doc = "there is no ZooKeeper: the metadata lies under metadata.log.dir; drop the line"
		case strings.HasPrefix(name, "password.encoder."):
			doc = "it guarded passwords in ZooKeeper, which is gone; drop the line"
		default:
			return Setting{}, false
		}
	}
	return Setting{
		Name: name, Type: String, Doc: doc, Effect: Removed, ReadOnly: true, Synonyms: []string{name},
		Sensitive: strings.HasSuffix(name, ".secret") || strings.HasSuffix(name, ".master.key") ||
			strings.HasSuffix(name, ".password"),
	}, true
}

// removed names the settings that Kafka dropped on the way from ZooKeeper to 4.4, with what replaced each.
func removed() map[string]string {
	const (
		negotiated = "versions are negotiated with each client, and the record format is v2; drop the line"
		listeners  = "set listeners=PLAINTEXT://HOST:PORT"
		advertised = "set advertised.listeners=PLAINTEXT://HOST:PORT"
		timestamps = "set log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms"
		quotas     = "set quotas with the admin client (kafka-configs --entity-type clients)"
		always     = "it is always on; drop the line"
		noRetries  = "a stopping node asks once and does not retry; drop the line"
	)
	return map[string]string{
		"reserved.broker.max.id":      "set node.id",
		"broker.id.generation.enable": "ids are not generated: set node.id",
		"host.name":                   listeners, "port": listeners,
		"advertised.host.name": advertised, "advertised.port": advertised,
		"inter.broker.protocol.version":           negotiated,
		"log.message.format.version":              negotiated,
		"log.message.downconversion.enable":       negotiated,
		"log.message.timestamp.difference.max.ms": timestamps,
		"control.plane.listener.name":             "set controller.listener.names",
		"controlled.shutdown.max.retries":         noRetries,
		"controlled.shutdown.retry.backoff.ms":    noRetries,
		"delegation.token.master.key":             "it was renamed delegation.token.secret.key",
		"offsets.commit.required.acks":            "commits always wait for all replicas in sync; drop the line",
		"quota.producer.default":                  quotas,
		"quota.consumer.default":                  quotas,
		"auto.include.jmx.reporter":               "metrics are at /metrics of firn.http.listener; drop the line",
		"replica.lag.max.messages":                "set replica.lag.time.max.ms",
		"leader.imbalance.per.broker.percentage":  "leaders are balanced partition by partition; drop the line",
		"unstable.metadata.versions.enable":       "it was renamed unstable.feature.versions.enable",
		"group.coordinator.new.enable":            always,
		"group.share.enable":                      "share groups are a feature of the cluster now; drop the line",
		"group.share.max.groups":                  "the number of share groups is not limited by it; drop the line",
		"eligible.leader.replicas.enable":         "it is a feature of the cluster now; drop the line",
	}
}

// Package launch starts brokers as programs of their own: the built firn, and Apache Kafka from its jars; and an S3
// server. It pins them to a processor, waits until they serve, and stops or kills them.
//
// It is used by integration/bench, integration/differential and integration/clients. It decides no setting that a user
// would not: what is compared is what the two do by default, but for what its callers set.
package launch

// Package differential compares firn with Apache Kafka 4.4: the same script of requests, good and bad, at every served
// version, is sent to both, and the answers must be equal field by field once ids, times and addresses are normalised.
// What differs stands in one table with its reason, which docs/protocol.md shows. The comparison runs under the build
// tag integration and takes Kafka's jars from the folder FIRN_KAFKA_LIB. It has nothing but tests, and no broker code
// may import it.
package differential

// Command gopeers writes and reads records with other Go clients of Kafka for the client tests. It is a module of its
// own, so that these clients stay out of firn's.
//
//	gopeers segmentio|sarama produce BROKERS    < a line {"topic":"t","codec":"gzip"}, then its records, one a line
//	gopeers segmentio|sarama consume BROKERS    < lines TOPIC offset:N or TOPIC time:MS
//
// A record is a line of JSON: key, value and header values are in base64 or null. It is written to partition 0 and has
// been acknowledged when the program ends well. What is read from a start to the end of partition 0 is followed by an
// empty line.
package main

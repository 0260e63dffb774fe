// Package kafka is the vocabulary that every part of firn shares: topic partitions, topic ids, broker ids, leader
// epochs and Kafka's error codes. It holds values only: no I/O, no locks, and nothing of ours is imported.
package kafka

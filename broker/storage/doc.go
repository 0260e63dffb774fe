// Package storage is the local part of a partition's log: segments with their indexes on disk, in Kafka's own formats,
// the state of producers and leader epochs that belongs to them, flushing, recovery, and the manager of all logs of a
// broker. Partitions of broker/replica append and read; tiering and retention ask for segments and move the borders.
// It decides when data is durable, never who may read or write it, and it knows nothing of replicas, of the cluster's
// metadata or of object stores.
package storage

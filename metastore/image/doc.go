// Package image is the cluster's metadata as values: brokers, topics, partitions, settings, the state of their tier.
//
// An Image never changes. metastore's state machine derives the next one from it with the With… methods, which share
// everything that stays the same; whoever holds an image (api, replica, tiering) may read it without a lock and keep it
// for ever. The package does no I/O and knows neither raft nor Pebble nor how an image is stored.
package image

// Package controller is what the leader of the metadata quorum decides, as pure functions from the image to commands.
// Today that is where the replicas of new partitions go.
//
// The root package hands it to whoever creates topics and partitions (broker/api). It does no I/O, keeps nothing and
// never changes an image: a decision takes effect only as a command in the log.
package controller

// Package raftlog stores what hashicorp/raft must not forget: its log, its term and vote, and its snapshots, on one
// Pebble database (state.DB) in a directory of its own.
//
// metastore.Store opens it and hands the three stores to raft. It never interprets a command or a snapshot's content.
package raftlog

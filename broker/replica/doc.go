// Package replica decides what a partition's log may take in and give out on this broker: it holds the leader's side
// of each partition (append, high watermark, reads, offset look-ups, deletion of records) and the waits that belong
// to it. The API handlers use it; it uses broker/storage for the local log and a RemoteLog for what only the object
// store still has. It never talks to clients, to raft or to an object store itself.
//
// Today every partition has one replica, its leader: the ISR is one. Followers, ISR changes and fail-over join in
// this package when the cluster lands.
package replica

// Package api is what each Kafka API does: one file per API, joined by the one table in routes.go. A handler's first
// phase runs in order on its connection and returns a wire.Reply; what may have to wait (the disk, new records, the
// object store, the metastore) happens behind the reply. Handlers decode, ask broker/replica or the metastore, and
// encode: they hold no state but fetch sessions. The server dispatches to this package without knowing it.
package api

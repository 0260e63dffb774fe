// Package manifest answers which segments of a partition are remote: where an offset or a time is. The newest segments
// are listed one by one in the metastore; the oldest of them are sealed into immutable leaf objects, and leaves into
// nodes, of each of which the metastore keeps one reference. So an upload costs the same however long the history is,
// and a look-up loads at most a node and a leaf. A Tree is one partition's manifest as of one version; Manifests makes
// them and keeps sealed objects in memory. It is used by all of tiering and, through it, by retention and the HTTP API.
// It never writes: upload puts what Seal makes. Every sealed object is checked when it is loaded.
//
// Metrics: firn_tier_manifest_loads_total, firn_tier_manifest_corrupt_total, firn_tier_manifest_cache_bytes.
package manifest

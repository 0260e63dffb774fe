// Package fetch reads what of a log is only in the bucket: whole batches for Fetch, records by time for ListOffsets.
// The tiering manager runs one Reader for all partitions of a broker.
//
// Objects are read in chunks of 4 MiB: one request for each, however many readers want it, checked when it arrives, and
// kept in a bounded cache. Who reads in order is read ahead of. What is remote the metadata says, never this package.
//
// Metrics: kafka_server_brokertopicmetrics_remotefetch{bytes,requests,errors}_total,
// kafka_log_remote_remotestoragethreadpool_remotelogreadertaskqueuesize, firn_tier_fetch_{gets,chunk_hits,
// chunks_wasted}_total, firn_tier_fetch_{cache,held}_bytes, firn_tier_{missing,corrupt}_objects_total.
package fetch

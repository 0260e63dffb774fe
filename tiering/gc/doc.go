// Package gc removes from the bucket what no log refers to any more: segments that left the manifest, objects of
// uploads that were never committed, and everything of deleted topics. The tiering manager runs one Collector; it acts
// on the broker that is the controller.
//
// What is garbage is the metastore's to say, and it forgets a piece only once the bucket is known to have lost it, so a
// collection may stop at any point and begin again. Waiting is measured in the cluster's elapsed time.
//
// Metrics: firn_tier_gc_deleted_objects_total, firn_tier_gc_pending,
// kafka_server_brokertopicmetrics_remotedeleterequests_total, _remotedeleteerrors_total.
package gc

// Package upload copies sealed local segments to the bucket and commits them to the log's remote part: one Task for
// each partition that this broker leads and whose topic is tiered. The tiering manager starts and stops tasks.
//
// A task may be killed at any point and begins again from what the metastore says. Local files are retention's
// business, objects that were never committed are gc's.
//
// Metrics: kafka_server_brokertopicmetrics_remotecopybytes_total, _remotecopyrequests_total, _remotecopyerrors_total,
// firn_tier_manifest_sealed_total,
// firn_tier_upload_seconds, firn_tier_uploads_in_flight, firn_tier_uploads_stuck_total, firn_tier_last_commit_seconds,
// firn_tier_upload_throttled_seconds_total.
package upload

// Package tiering sinks the history of partitions into the bucket and reads it back. Manager runs one upload task for
// each tiered partition that this broker leads (package upload), answers reads of what is only remote (fetch) and
// removes what no log needs any more (gc). It is the remote log of broker/replica and retention.
//
// What is remote is the metastore's to say: everything here may be killed at any point and begins again from there.
// The package never removes local files and never decides what has expired.
//
// Metrics: kafka_server_brokertopicmetrics_remotecopylagbytes, _remotecopylagsegments, _remotelogsizebytes, computed at
// each scrape from the state of logs and metadata; those of the parts are named in their packages.
package tiering

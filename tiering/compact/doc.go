// Package compact shows the remote part of a log to the log cleaner and takes in what it writes: sources that read
// segment objects, and sinks that become new objects. A new object takes the place of the old ones by one commit of the
// metastore, together with the sealed parts of the manifest that list them; the old ones stay until no reader and no
// checkpoint needs them. The root package joins it to package compaction. It never decides what is kept.
package compact

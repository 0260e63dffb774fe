// Package vfs is the file system that firn's parts work on: FS and File, with the real one (OS), one in memory that can
// be crashed (Mem), one that fails on demand (NewFaulty) and one that tells what is done to it (NewLogging). A Region
// is a range of a file that somebody else keeps open. Storage, metastore and tiering use it; it knows nothing of logs,
// never retries, and never syncs on its own account except in WriteFileAtomic and MkdirAllDurable.
package vfs

//go:build !linux

package vfs

import "os"

// syncData syncs everything: not every system has an fdatasync that reaches the disk (on macOS only F_FULLFSYNC does,
// which os.File.Sync uses).
func syncData(file *os.File) error { return file.Sync() }

package vfs

import (
	"io"
	"os"
)

// FS is the part of a file system that firn needs. Names are slash-separated paths. It is one interface, although it
// is larger than our others, because every method must act on the same tree: a fault, a crash or a log line that left
// out one of them would test nothing. Errors satisfy errors.Is with the errors of package io/fs.
type FS interface {
	// Create makes an empty file for reading and writing; a file that exists is truncated.
	Create(name string) (File, error)
	// Open opens an existing file for reading only.
	Open(name string) (File, error)
	// OpenReadWrite opens an existing file for reading and writing and leaves its content alone.
	OpenReadWrite(name string) (File, error)
	// Remove deletes a file or an empty folder.
	Remove(name string) error
	// RemoveAll deletes a folder with everything in it; a name that does not exist is no error.
	RemoveAll(name string) error
	// Rename moves a file or folder within the file system, replacing a file of the new name. It is durable once
	// SyncDir of both parents has returned.
	Rename(oldName, newName string) error
	// MkdirAll makes a folder and its missing parents.
	MkdirAll(dir string) error
	// List returns the names (not paths) in a folder, sorted.
	List(dir string) ([]string, error)
	// Stat describes a file or folder.
	Stat(name string) (os.FileInfo, error)
	// SyncDir makes the entries of a folder durable: files created, renamed or removed in it.
	SyncDir(dir string) error
	// Lock takes an exclusive lock that the operating system releases when the process dies. The file is created if
	// it is missing. It fails at once if another process (or another holder in this one) has it.
	Lock(name string) (io.Closer, error)
	// Space tells how large the file system that holds dir is, and how much of it an unprivileged process may still
	// write.
	Space(dir string) (Space, error)
}

// Space is the size of a file system in bytes.
type Space struct {
	TotalBytes int64
	FreeBytes  int64
}

// File is an open file. Reads and writes at explicit offsets may run concurrently.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Name is the name the file was opened by.
	Name() string
	// Size is the current length in bytes.
	Size() (int64, error)
	// Truncate sets the length.
	Truncate(size int64) error
	// Sync makes content and metadata durable. A caller must treat a failed Sync as the loss of everything not yet
	// synced and never call it again for the same data.
	Sync() error
	// SyncData makes the content durable and as much metadata as is needed to read it (fdatasync).
	SyncData() error
	// OSFile is the operating system's file, for sendfile and mmap; nil where there is none (memory).
	OSFile() *os.File
}

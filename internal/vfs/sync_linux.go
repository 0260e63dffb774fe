package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

func syncData(file *os.File) error { return control(file, unix.Fdatasync) }

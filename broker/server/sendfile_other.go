//go:build !linux

package server

import (
	"errors"
	"os"
)

const sendfileSupported = false

// errSendfileUnsupported says that this file cannot be sent without reading it.
var errSendfileUnsupported = errors.New("sendfile is used on Linux only")

// fileSender has nothing to keep where there is no sendfile.
type fileSender struct{}

func (s *sender) sendFile(*os.File, int64, int64) (int64, error) { return 0, errSendfileUnsupported }

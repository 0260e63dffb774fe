package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/firnlog/firn/internal/invariant"
)

const (
	// MinRequestSize is the smallest frame that can hold a request header: key, version, correlation id.
	MinRequestSize = 8
	// PrefixSize is how many bytes of a frame CheckPrefix needs: key and version.
	PrefixSize = 4
)

// UnsupportedVersionError says that a client used an API or a version that this broker does not serve. There is no
// error body for it, so the connection is closed, as Kafka does.
type UnsupportedVersionError struct{ Key, Version int16 }

func (e *UnsupportedVersionError) Error() string {
	api, ok := LookupAPI(e.Key)
	if !ok {
		return fmt.Sprintf("request of unknown API key %d (version %d)", e.Key, e.Version)
	}
	return fmt.Sprintf("%s request of version %d: versions %d to %d are served",
		api.Name, e.Version, api.ServedFrom, api.Max)
}

// CheckPrefix judges a frame by its size and its first PrefixSize bytes, before anything is reserved for the rest: the
// API must be served in that version and the frame must not be larger than the API needs. An ApiVersions request
// above our versions passes.
func CheckPrefix(prefix []byte, frameSize int32) error {
	if len(prefix) < PrefixSize || frameSize < MinRequestSize {
		return &MalformedError{Key: -1, Version: -1, What: "frame is shorter than a request header"}
	}
	key, version := int16(binary.BigEndian.Uint16(prefix)), int16(binary.BigEndian.Uint16(prefix[2:]))
	api, ok := LookupAPI(key)
	if !ok || !api.Serves(version) && !beyondApiVersions(key, version) {
		return &UnsupportedVersionError{Key: key, Version: version}
	}
	if api.MaxRequestBytes > 0 && frameSize > api.MaxRequestBytes {
		what := fmt.Sprintf("%d bytes are more than the %d this API may have", frameSize, api.MaxRequestBytes)
		return &MalformedError{Key: key, Version: version, What: what}
	}
	return nil
}

// beyondApiVersions tells whether a client asks for ApiVersions in a version that did not exist when this broker was
// built. That is the one question that must be answered whatever its version.
func beyondApiVersions(key, version int16) bool {
	return key == KeyApiVersions && version > mustAPI(KeyApiVersions).Max
}

func mustAPI(key int16) API {
	api, ok := LookupAPI(key)
	if !ok {
		invariant.Fail("API key %d is not in the table", key)
	}
	return api
}

// ParseHeader reads the header of a frame (without its length prefix). Key and version are checked against the table
// before anything behind them is looked at. The errors are *UnsupportedVersionError and *MalformedError; both mean that
// the connection must be closed. Body aliases frame.
func ParseHeader(frame []byte) (Request, error) {
	var req Request
	err := ParseHeaderInto(&req, frame, "")
	return req, err
}

// ParseHeaderInto is ParseHeader for a request that exists already. knownClientID is the id the connection's previous
// request carried: it hardly ever changes, and using it again saves an allocation per request.
func ParseHeaderInto(req *Request, frame []byte, knownClientID string) error {
	if err := CheckPrefix(frame, int32(min(len(frame), 1<<31-1))); err != nil {
		return err
	}
	c := cursor{data: frame}
	req.Key, req.Version, req.CorrelationID = c.int16(), c.int16(), c.int32()
	if beyondApiVersions(req.Key, req.Version) {
		req.UnsupportedVersion = true
		return nil
	}
	// The client id keeps its two-byte length in flexible headers too.
	clientID := c.string(false, nullable)
	if mustAPI(req.Key).Flexible(req.Version) {
		c.skipTags()
	}
	if !c.ok() {
		return &MalformedError{Key: req.Key, Version: req.Version, What: "header: " + c.failure}
	}
	if req.ClientID = knownClientID; string(clientID) != knownClientID {
		req.ClientID = string(clientID)
	}
	req.Body = frame[c.position:]
	return nil
}

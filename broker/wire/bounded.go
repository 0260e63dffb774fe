package wire

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// MalformedError says that the bytes of a request do not follow the protocol. The connection is closed: after it
// nothing can be trusted, not even where the next request begins.
type MalformedError struct {
	Key, Version int16
	What         string
}

func (e *MalformedError) Error() string {
	name := "unknown API"
	if api, ok := LookupAPI(e.Key); ok {
		name = api.Name
	}
	return fmt.Sprintf("malformed %s request (key %d, version %d): %s", name, e.Key, e.Version, e.What)
}

// BoundedDecode decodes the request's body. Before kmsg may allocate anything, every length and count is walked and
// held against the bytes that are really there, and the memory the result will take against the size of the body.
// into must be the type of the request's key. Its byte fields alias the body.
func BoundedDecode(req *Request, into kmsg.Request) error {
	if into.Key() != req.Key {
		return fmt.Errorf("decode %d request into type of key %d", req.Key, into.Key())
	}
	into.SetVersion(req.Version)
	if err := checkBody(req.Key, req.Version, req.Body); err != nil {
		return err
	}
	if err := into.ReadFrom(req.Body); err != nil {
		return &MalformedError{Key: req.Key, Version: req.Version, What: err.Error()}
	}
	return nil
}

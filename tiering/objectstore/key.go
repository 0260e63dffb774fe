package objectstore

import (
	"fmt"
	"strings"
)

// Bounds that every known store accepts.
const (
	maxKeyBytes       = 1024 // S3's own bound
	maxComponentBytes = 255  // a name in the file systems behind directory-like stores
)

// CheckKey tells why a key must not be used, or nil. The rules are what all stores have in common, file systems
// included: printable ASCII; components of at most 255 bytes between single slashes; no component that begins with a
// dot (which leaves "." and "..", and names for the stores' own use, out). Beyond what can be seen from one key: a key
// must never be the folder of another one ("a" and "a/b"); Memory and Directory refuse the second of the two.
func CheckKey(key string) error {
	if key == "" || len(key) > maxKeyBytes {
		return fmt.Errorf("%w: %d bytes, 1 to %d are allowed", ErrInvalidKey, len(key), maxKeyBytes)
	}
	for component := range strings.SplitSeq(key, "/") {
		if component == "" {
			return fmt.Errorf("%w: %q begins or ends with a slash or has two in a row", ErrInvalidKey, key)
		}
		if component[0] == '.' {
			return fmt.Errorf("%w: in %q a component begins with a dot", ErrInvalidKey, key)
		}
		if len(component) > maxComponentBytes {
			return fmt.Errorf("%w: in %q a component is longer than %d bytes", ErrInvalidKey, key, maxComponentBytes)
		}
	}
	return checkPrintable(key)
}

func checkPrintable(text string) error {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return fmt.Errorf("%w: %q has a byte that is not printable ASCII", ErrInvalidKey, text)
		}
	}
	return nil
}

// parents lists the folders above a key, the outermost first: "a/b/c" has "a" and "a/b".
func parents(key string) []string {
	var folders []string
	for i := range len(key) {
		if key[i] == '/' {
			folders = append(folders, key[:i])
		}
	}
	return folders
}

// checkPut is what every implementation demands of a key and a size before it stores anything.
func checkPut(operation Operation, bucket, key string, size int64) error {
	err := CheckKey(key)
	kind := ErrInvalidKey
	if err == nil && size <= 0 {
		err, kind = fmt.Errorf("an object of %d bytes: stores disagree about empty ones, so there are none", size), nil
	}
	if err == nil {
		return nil
	}
	return &Error{Operation: operation, Bucket: bucket, Key: key, Status: "invalid", Kind: kind, Err: err}
}

// checkGet is what every implementation demands of a key and an offset before it reads anything.
func checkGet(operation Operation, bucket, key string, offset int64) error {
	err := CheckKey(key)
	kind := ErrInvalidKey
	if err == nil && offset < 0 {
		err, kind = fmt.Errorf("negative offset %d", offset), nil
	}
	if err == nil {
		return nil
	}
	return &Error{Operation: operation, Bucket: bucket, Key: key, Status: "invalid", Kind: kind, Err: err}
}

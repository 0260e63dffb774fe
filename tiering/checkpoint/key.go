package checkpoint

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/firnlog/firn/internal/kafka"
)

const (
	rootFolder  = "/meta/ckpt/"
	shardFolder = "/meta/shard/"
	rootSuffix  = ".ckpt"
	shardSuffix = ".shard"
	claimName   = "/claim"

	indexDigits = 20
	idDigits    = 32
)

func rootPrefix(cluster kafka.UUID) string  { return cluster.Hex() + rootFolder }
func shardPrefix(cluster kafka.UUID) string { return cluster.Hex() + shardFolder }
func claimKey(cluster kafka.UUID) string    { return cluster.Hex() + claimName }

// Key is the root's key.
func (r *Root) Key() string {
	return fmt.Sprintf("%s%0*d-%s%s", rootPrefix(r.ClusterID), indexDigits, r.Index, r.ID.Hex(), rootSuffix)
}

func (s *shardRef) key(cluster kafka.UUID) string {
	return shardPrefix(cluster) + s.id.Hex() + shardSuffix
}

// isRootKey tells whether a key under a root prefix is one that this package writes.
func isRootKey(cluster kafka.UUID, key string) bool {
	name, found := strings.CutPrefix(key, rootPrefix(cluster))
	if !found || len(name) != indexDigits+1+idDigits+len(rootSuffix) || !strings.HasSuffix(name, rootSuffix) {
		return false
	}
	_, err := strconv.ParseUint(name[:indexDigits], 10, 64)
	_, idErr := parseHex(name[indexDigits+1:][:idDigits])
	return err == nil && idErr == nil && name[indexDigits] == '-'
}

// parseHex reads an id of 32 hexadecimal digits.
func parseHex(digits string) (id kafka.UUID, err error) {
	if len(digits) != idDigits {
		return id, fmt.Errorf("%q is not an id of %d hexadecimal digits", digits, idDigits)
	}
	_, err = hex.Decode(id[:], []byte(digits))
	return id, err
}

// ParseClusterID reads a cluster id as people meet it: 32 hexadecimal digits, as in the bucket's keys, or Kafka's 22
// characters.
func ParseClusterID(text string) (kafka.UUID, error) {
	if len(text) == idDigits {
		id, err := parseHex(text)
		if err != nil {
			return id, fmt.Errorf("%q is not a cluster id: %w", text, err)
		}
		return id, nil
	}
	id, err := kafka.ParseUUID(text)
	if err != nil {
		return id, fmt.Errorf("%q is not a cluster id: it has 32 hexadecimal digits, or 22 of URL-safe base64", text)
	}
	return id, nil
}

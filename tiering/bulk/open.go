package bulk

import (
	"context"
	"crypto/rand"
	"log/slog"
	mathrand "math/rand/v2"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/internal/vfs"
	"github.com/firnlog/firn/tiering/objectstore"
)

// Bucket is an object store that was opened for reading.
type Bucket = objectstore.Store

// Open opens the object store that a URL names, as firn.object.store does, for reading: the rights to list and to read
// are enough. Credentials come from where the broker takes them. The error of a URL that is wrong, of rights that are
// missing or of a store that is away says so in one line. The caller closes the store.
func Open(ctx context.Context, url string, logger *slog.Logger) (*Bucket, error) {
	var seed [32]byte
	_, _ = rand.Read(seed[:]) // never fails, as crypto/rand says
	return objectstore.OpenForReading(ctx, url, objectstore.Dependencies{
		Logger: logger, Registerer: prometheus.NewRegistry(), FS: vfs.OS(), Rand: mathrand.New(mathrand.NewChaCha8(seed)),
	})
}

package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/firnlog/firn/broker/admin/view"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
)

// Metadata is what the JSON API shows of the cluster's metadata.
type Metadata interface {
	Image() *image.Image
}

// Options are what a Server is made of.
type Options struct {
	Logger   *slog.Logger
	Gatherer prometheus.Gatherer
	Metadata Metadata
	// Logs finds the local log of a partition.
	Logs func(tp kafka.TopicPartition) (*storage.Log, error)
	// Segments lists a partition's segment objects, by offset.
	Segments func(ctx context.Context, tp kafka.TopicIDPartition) iter.Seq2[command.SegmentEntry, error]
	// ObjectKey is the key under which a segment object lies in the bucket.
	ObjectKey func(tp kafka.TopicIDPartition, entry command.SegmentEntry) string
	// Compaction is the log cleaner.
	Compaction Compaction
	// Tier is the upkeep of the bucket.
	Tier Tier
	// Pins keep objects for bulk reads.
	Pins Pins
	// Ready says why the broker cannot serve, or nil.
	Ready func() error
	// Profiles mounts net/http/pprof (firn.http.pprof).
	Profiles bool
}

// Server serves the HTTP listener.
type Server struct {
	options Options
	server  http.Server
}

// headerTimeout bounds how long a client may take to say what it wants: a slow one must not hold a connection for ever.
const headerTimeout = 10 * time.Second

// New makes a server that Run serves.
func New(options Options) *Server {
	s := &Server{options: options}
	s.server = http.Server{
		Handler: s.routes(), ReadHeaderTimeout: headerTimeout,
		ErrorLog: slog.NewLogLogger(options.Logger.Handler(), slog.LevelDebug),
	}
	return s
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.options.Gatherer, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.HandleFunc("GET "+view.PathTier, s.tierStatus)
	mux.HandleFunc("GET "+view.PathTier+"/{topic}", s.tierObjects)
	mux.HandleFunc("GET "+view.PathCompaction+"/{topic}", s.compactionStatus)
	mux.HandleFunc("POST "+view.PathCompaction+"/{topic}", s.compact)
	mux.HandleFunc("GET "+view.PathVerify, s.verification)
	mux.HandleFunc("POST "+view.PathVerify, s.verify)
	mux.HandleFunc("DELETE "+view.PathVerify, s.stopVerifying)
	mux.HandleFunc("GET "+view.PathGarbage, s.garbage)
	mux.HandleFunc("POST "+view.PathGarbage, s.garbage)
	mux.HandleFunc("GET "+view.PathPins, s.pins)
	mux.HandleFunc("POST "+view.PathPins, s.pin)
	mux.HandleFunc("POST "+view.PathPins+"/{id}", s.extendPin)
	mux.HandleFunc("DELETE "+view.PathPins+"/{id}", s.endPin)
	if s.options.Profiles {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, http.StatusNotFound, fmt.Errorf("there is nothing at %s %s", r.Method, r.URL.Path))
	})
	return mux
}

// Run serves the listener until ctx ends, and returns when no request is left.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), headerTimeout)
		defer cancel()
		stopped <- s.server.Shutdown(grace)
	})
	err := s.server.Serve(listener)
	if !errors.Is(err, http.ErrServerClosed) {
		stop()
		return fmt.Errorf("serve HTTP on %s: %w", listener.Addr(), err)
	}
	return <-stopped
}

// healthz answers as long as the process does.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok") }

// readyz answers 200 only while the broker can serve clients.
func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	if err := s.options.Ready(); err != nil {
		writeText(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	writeText(w, http.StatusOK, "ready")
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text) // a client that went away needs no answer
}

func (s *Server) write(w http.ResponseWriter, status int, document any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(document); err != nil {
		s.options.Logger.Debug("HTTP answer not sent", "err", err)
	}
}

func (s *Server) fail(w http.ResponseWriter, status int, err error) {
	s.write(w, status, view.Error{Error: err.Error()})
}

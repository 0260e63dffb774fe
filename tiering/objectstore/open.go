package objectstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/internal/vfs"
)

// Accepted says which URLs Open takes.
const Accepted = "s3://BUCKET/FOLDER?endpoint=https://HOST:PORT&region=NAME&path_style=true|false&checksum=on|off, " +
	"minio://BUCKET/FOLDER?endpoint=https://HOST:PORT with the same parameters, file:///FOLDER, or mem: (for tests)"

// The schemes of stores that speak Amazon's protocol: they differ in the library that makes the requests, and with it
// in where credentials are taken from.
const (
	schemeS3    = "s3"
	schemeMinio = "minio"
)

// Dependencies is what a store needs of its surroundings.
type Dependencies struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	FS         vfs.FS     // of file:// buckets
	Rand       *rand.Rand // waits between attempts; the store guards it from then on
	// Policy of retries. Zero: DefaultRetryPolicy.
	Policy RetryPolicy
	// Transport of s3:// and minio:// requests, below the limiter. Nil: a TCP transport of the store's own.
	Transport http.RoundTripper
}

// Open makes the store that a URL names and probes it. A store that cannot be reached is no error: it is probed again
// by Run, and until then every operation fails with ErrUnavailable. A store that answers but cannot be used is one.
func Open(ctx context.Context, text string, deps Dependencies) (*Store, error) {
	store, err := open(ctx, text, deps, NewDirectory)
	if err != nil {
		return nil, err
	}
	store.rights = "list the bucket and read, write and delete in it"
	err = store.Probe(ctx)
	var failure *Error
	switch {
	case err == nil:
		return store, nil
	case errors.Is(err, ErrUnavailable) && errors.As(err, &failure) && failure.Status != statusCredentials:
		deps.Logger.Error("the object store cannot be reached; trying on", "error", err)
		return store, nil
	}
	return nil, errors.Join(err, store.Close())
}

// open makes the store without speaking to it; a folder is opened by directory.
func open(ctx context.Context, text string, deps Dependencies, directory func(vfs.FS, string) (*Directory, error)) (
	*Store, error,
) {
	location, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("the object store's URL cannot be read (%w); it is one of %s", withoutURL(err), Accepted)
	}
	if location.User != nil {
		return nil, errors.New("the object store's URL must not hold credentials: they would end up in logs. They are " +
			"taken from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or the machine's role")
	}
	if deps.Policy == (RetryPolicy{}) {
		deps.Policy = DefaultRetryPolicy()
	}
	metrics, err := NewMetrics(deps.Registerer)
	if err != nil {
		return nil, err
	}
	store := &Store{logger: deps.Logger, retrier: NewRetrier(deps.Logger, deps.Rand, deps.Policy)}
	var bucket Bucket
	switch location.Scheme {
	case schemeS3, schemeMinio:
		bucket, err = store.openS3(ctx, location, deps.Transport, metrics)
	case "file":
		bucket, err = store.openDirectory(location, deps.FS, directory)
	case "mem":
		bucket, store.place, store.label = NewMemory(), "mem:", "mem:"
	default:
		err = fmt.Errorf("%q is not the URL of an object store; it is one of %s", location.Redacted(), Accepted)
	}
	if err != nil {
		return nil, err
	}
	store.wrap(bucket, metrics)
	return store, nil
}

// withoutURL is a parse error without the URL in it, which may hold a secret.
func withoutURL(err error) error {
	var parse *url.Error
	if errors.As(err, &parse) {
		return parse.Err
	}
	return err
}

// wrap puts the wrappers on: metrics see each attempt, retries see whole keys, users see keys below the folder.
func (s *Store) wrap(bucket Bucket, metrics *Metrics) {
	s.retrier.retry = func(operation Operation) {
		metrics.retries.WithLabelValues(s.label, string(operation)).Inc()
	}
	s.Bucket = NewPrefixed(NewRetrying(NewInstrumented(bucket, s.label, metrics), s.retrier), s.folder)
}

func (s *Store) openDirectory(location *url.URL, fsys vfs.FS, open func(vfs.FS, string) (*Directory, error)) (
	Bucket, error,
) {
	if location.Host != "" || location.Path == "" || location.RawQuery != "" {
		return nil, fmt.Errorf("%q does not name a folder: file:///PATH has three slashes and nothing after the path",
			location.Redacted())
	}
	directory, err := open(fsys, location.Path)
	if err != nil {
		return nil, err
	}
	s.place, s.label, s.closer = directory.name(), directory.name(), directory
	return directory, nil
}

func (s *Store) openS3(ctx context.Context, location *url.URL, transport http.RoundTripper, metrics *Metrics) (
	Bucket, error,
) {
	cfg, err := parseS3URL(location)
	if err != nil {
		return nil, err
	}
	s.folder = strings.Trim(location.Path, "/")
	if s.folder != "" {
		if err := CheckKey(s.folder); err != nil {
			return nil, fmt.Errorf("the folder in the object store's URL: %w", err)
		}
	}
	if transport == nil {
		tcp := newTransport()
		transport, s.closer = tcp, closeIdle{tcp}
	}
	s.label = cfg.Scheme + "://" + cfg.Bucket
	s.traffic = &traffic{next: transport, requests: metrics.http.MustCurryWith(prometheus.Labels{"bucket": s.label})}
	cfg.Transport = NewLimiter().Transport(s.traffic)
	library, credentials, err := connect(ctx, &cfg, transport, func(expires time.Time, err error) {
		metrics.renewed(s.label, expires, err)
	})
	if err != nil {
		return nil, err
	}
	s.s3 = newS3(library, credentials, cfg, s.retrier)
	endpoint := cfg.Endpoint
	if endpoint == "" {
		endpoint = "of Amazon"
	}
	s.place = fmt.Sprintf("%s (endpoint %s, region %s)", strings.TrimSuffix(s.label+"/"+s.folder, "/"), endpoint,
		cfg.Region)
	return s.s3, nil
}

// connect makes the library that the URL asks for, with its credentials, and settles the region. What gives credentials
// is asked over transport, beside the requests to the store.
func connect(ctx context.Context, cfg *S3Config, transport http.RoundTripper, observe func(time.Time, error)) (
	sdk, *credentialCache, error,
) {
	if cfg.Scheme == schemeMinio {
		cfg.Region = cmp.Or(cfg.Region, os.Getenv("AWS_REGION"), defaultRegion)
		credentials := newCredentialCache(minioCredentials(transport), observe)
		library, err := newMinio(*cfg, credentials)
		return library, credentials, err
	}
	region, fetch, err := loadAWS(ctx, cfg.Region)
	if err != nil {
		return nil, nil, err
	}
	if cfg.Region = region; region == "" {
		if cfg.Endpoint == "" {
			return nil, nil, fmt.Errorf("no region for bucket %s: set region= in the URL or AWS_REGION", cfg.Bucket)
		}
		cfg.Region = defaultRegion
	}
	credentials := newCredentialCache(fetch, observe)
	return newAWS(*cfg, credentials), credentials, nil
}

// s3Parameters are the parameters of an s3:// or minio:// URL.
var s3Parameters = []string{"endpoint", "region", "path_style", "checksum"}

func parseS3URL(location *url.URL) (S3Config, error) {
	parameters, err := url.ParseQuery(location.RawQuery)
	if err != nil {
		return S3Config{}, fmt.Errorf("the parameters in the object store's URL: %w", err)
	}
	for name, values := range parameters {
		if !slices.Contains(s3Parameters, name) {
			return S3Config{}, fmt.Errorf("the object store's URL has an unknown parameter %q; known are %s (credentials come "+
				"from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or the machine's role)", name,
				strings.Join(s3Parameters, ", "))
		}
		if len(values) > 1 {
			return S3Config{}, fmt.Errorf("the object store's URL has the parameter %q twice", name)
		}
	}
	s3Config := S3Config{Scheme: location.Scheme, Bucket: location.Host,
		Endpoint: strings.TrimSuffix(parameters.Get("endpoint"), "/"),
		Region:   parameters.Get("region"), IdleTimeout: 15 * time.Second}
	if s3Config.Bucket == "" || location.Port() != "" || location.Opaque != "" {
		return S3Config{}, fmt.Errorf("the object store's URL names no bucket: %s", Accepted)
	}
	if s3Config.Endpoint == "" && s3Config.Scheme == schemeMinio {
		return S3Config{}, fmt.Errorf("a minio:// URL needs endpoint=https://HOST:PORT: %s", Accepted)
	}
	if s3Config.Endpoint != "" {
		endpoint, err := url.Parse(s3Config.Endpoint)
		if err != nil || endpoint.Scheme != "http" && endpoint.Scheme != "https" || endpoint.Host == "" ||
			endpoint.Path != "" || endpoint.RawQuery != "" || endpoint.User != nil {
			return S3Config{}, errors.New("the endpoint in the object store's URL must be http://HOST[:PORT] or " +
				"https://HOST[:PORT]")
		}
	}
	// Names of buckets in front of the host need DNS entries, which stores of one's own rarely have, and certificates that
	// cover them, which no name with dots in it has.
	defaultStyle := s3Config.Endpoint != "" || strings.Contains(s3Config.Bucket, ".")
	if s3Config.PathStyle, err = switchOf(parameters, "path_style", "true", "false", defaultStyle); err != nil {
		return S3Config{}, err
	}
	s3Config.Checksums, err = switchOf(parameters, "checksum", "on", "off", true)
	return s3Config, err
}

// switchOf reads a parameter with two values.
func switchOf(parameters url.Values, name, yes, no string, otherwise bool) (bool, error) {
	switch value := parameters.Get(name); value {
	case "":
		return otherwise, nil
	case yes:
		return true, nil
	case no:
		return false, nil
	default:
		return false, fmt.Errorf("%s=%s in the object store's URL: it is %s or %s", name, value, yes, no)
	}
}

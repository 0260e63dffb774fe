package objectstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"
)

// statusNoBucket is the status of a probe that found no bucket and may not make one.
const statusNoBucket = "404 " + codeNoSuchBucket

// defaultRegion is what a store of one's own is told when nobody names a region; it is also the only one for which a
// bucket is made without naming it.
const defaultRegion = "us-east-1"

// ensureBucket asks for the bucket in a way whose refusal has a body that tells why, and makes it if it is missing and
// the store is not Amazon's: there, names are shared with the world and a bucket needs settings of its own.
func (s *S3) ensureBucket(ctx context.Context, folder string, logger *slog.Logger) error {
	_, err := s.page(ctx, below(folder), "", "")
	var failure *Error
	if err == nil || !errors.As(err, &failure) || failure.Status != statusNoBucket || s.config.Endpoint == "" {
		return err
	}
	err = s.retrier.do(ctx, attemptOf{operation: OpCreateBucket}, func(ctx context.Context) error {
		err := s.sdk.createBucket(ctx, s.config.Region)
		if err != nil && s.sdk.answer(err).code != "BucketAlreadyOwnedByYou" { // else another node was faster
			return s.failure(ctx, OpCreateBucket, "", err)
		}
		return nil
	})
	if err == nil {
		logger.Info("made the bucket", "bucket", s.config.Bucket, "endpoint", s.config.Endpoint)
	}
	return err
}

// noteRules warns of what a bucket does by itself with objects that firn means to keep, or to remove. Not every store
// can tell, and not everybody may ask: then nothing is said.
func (s *S3) noteRules(ctx context.Context, folder string, logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, s.retrier.policy.AttemptTimeout)
	defer cancel()
	if versioned, err := s.sdk.versioned(ctx); err == nil && versioned {
		logger.Warn("the bucket keeps old versions: what firn removes goes on to cost, unless a lifecycle rule removes "+
			"noncurrent versions", "bucket", s.name())
	}
	rules, err := s.sdk.lifecycle(ctx)
	if err != nil {
		return
	}
	for _, rule := range rules {
		if !strings.HasPrefix(rule.prefix, below(folder)) && !strings.HasPrefix(below(folder), rule.prefix) {
			continue
		}
		for _, effect := range rule.effects() {
			logger.Warn(effect, "bucket", s.name(), "rule", rule.name, "prefix", rule.prefix)
		}
	}
}

// effects are what an operator should know of a rule.
func (r lifecycleRule) effects() (effects []string) {
	if r.expires {
		effects = append(effects, "a lifecycle rule of the bucket removes objects: HISTORY WILL BE LOST; retention is set "+
			"on topics")
	}
	if r.archives {
		effects = append(effects, "a lifecycle rule of the bucket moves objects to another storage class: from an archive "+
			"they cannot be read")
	}
	if r.aborts {
		effects = append(effects, "a lifecycle rule of the bucket aborts multipart uploads: one that lasts as long is "+
			"begun anew")
	}
	return effects
}

// skewNoted is a difference between clocks that should be put right: at a quarter of an hour Amazon's store, and those
// that follow it, refuse signatures.
const skewNoted = 5 * time.Minute

// skewError says that a store refuses requests because of the time they were signed at.
type skewError struct {
	err  error
	skew time.Duration // of the store's clock against this machine's
}

// Error implements error.
func (e *skewError) Error() string {
	return fmt.Sprintf("%v (%s)", e.err, describeSkew(e.skew))
}

// Unwrap implements errors.Unwrap.
func (e *skewError) Unwrap() error { return e.err }

func describeSkew(skew time.Duration) string {
	skew = skew.Round(time.Second) // as answers tell the time
	if skew < 0 {
		return fmt.Sprintf("this machine's clock is %s ahead of the store's", -skew)
	}
	return fmt.Sprintf("this machine's clock is %s behind the store's", skew)
}

// noteSkew warns of a clock that goes wrong before its requests are refused, or explains that they are.
func (s *Store) noteSkew(err error) error {
	skew := s.traffic.skew()
	var failure *Error
	refused := errors.As(err, &failure) && strings.Contains(failure.Status, "RequestTimeTooSkewed")
	switch {
	case refused && skew.Abs() > skewNoted:
		return &skewError{err, skew}
	case skew.Abs() > skewNoted:
		s.logger.Warn("clocks differ: requests are refused from a quarter of an hour on; set the clocks (NTP)",
			"bucket", s.place, "difference", describeSkew(skew))
	}
	return err
}

// advice is what an operator can do about an error.
func (s *Store) advice(err error) string {
	var region *regionError
	var failure *Error
	var skew *skewError
	var missingHost *net.DNSError
	styled := s.s3 != nil && !s.s3.config.PathStyle && s.s3.config.Endpoint != ""
	switch {
	case errors.As(err, &region):
		return fmt.Sprintf("; set region=%s in the store's URL (firn.object.store)", region.expected)
	case errors.As(err, &skew):
		return "; set the clocks (NTP): they must not differ by a quarter of an hour"
	case styled && errors.As(err, &missingHost) && missingHost.IsNotFound:
		return "; set path_style=true in the store's URL (firn.object.store), or give the bucket's host a DNS entry"
	case errors.Is(err, ErrDenied):
		text := "; check the credentials (" + s.credentialSources() + ") and that they may " + s.rights
		if styled {
			text += "; a store of one's own may also need path_style=true"
		}
		return text
	case errors.As(err, &failure) && failure.Status == statusCredentials:
		return "; set " + s.credentialSources()
	case errors.As(err, &failure) && failure.Status == statusNoBucket:
		return "; create the bucket or correct its name or region in the store's URL (firn.object.store)"
	}
	return ""
}

// credentialSources is where credentials are looked for.
func (s *Store) credentialSources() string {
	if s.s3 != nil && s.s3.config.Scheme == schemeMinio {
		return "MINIO_ROOT_USER and MINIO_ROOT_PASSWORD, MINIO_ACCESS_KEY and MINIO_SECRET_KEY, those of AWS, the files " +
			".mc/config.json (MINIO_ALIAS) and .aws/credentials, or give the machine a role"
	}
	return "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE, or give the machine a role"
}

func readerAt(data []byte) io.ReaderAt { return bytes.NewReader(data) }

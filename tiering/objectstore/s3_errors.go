package objectstore

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// The error codes of the protocol that are treated in a way of their own.
const (
	codeNoSuchKey    = "NoSuchKey"
	codeNoSuchBucket = "NoSuchBucket"
	codeNoSuchUpload = "NoSuchUpload"
	codeBadRegion    = "AuthorizationHeaderMalformed"
	codeRedirect     = "PermanentRedirect"
)

// kindOfCode is the kind of the errors that their code tells more about than their status.
func kindOfCode(code string) error {
	switch code {
	case codeNoSuchKey, "NotFound":
		return ErrNotFound
	case "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "AccountProblem", "AllAccessDisabled",
		"XAdminUserNotFound": // versitygw's answer, with status 404, to an access key that it does not know
		return ErrDenied
	case "ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired", "RequestTimeTooSkewed",
		"SlowDown", "SlowDownRead", "SlowDownWrite", "InternalError", "ServiceUnavailable", "RequestTimeout", "Throttling",
		"ThrottlingException", "RequestLimitExceeded", "BandwidthLimitExceeded", "OperationAborted", "IncompleteBody",
		"ConditionalRequestConflict", "XMinioServerNotInitialized",
		// What was declared is what was about to be sent, so the bytes changed on the way.
		"BadDigest", "InvalidDigest", "XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch":
		return ErrUnavailable
	case codeNoSuchUpload:
		return errUploadGone
	}
	return nil
}

// errUploadGone: somebody (a lifecycle rule) has aborted a multipart upload under way. There is no use in sending its
// parts again, but in beginning another one.
var errUploadGone = errors.New("the upload is gone")

// isExpired tells whether fresh credentials may help.
func isExpired(code string) bool {
	switch code {
	case "ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired", "InvalidAccessKeyId",
		"InvalidToken":
		return true
	}
	return false
}

// failure makes an *Error of what the SDK or a transfer returned. It also forgets credentials that the store calls
// expired, so that the next attempt fetches new ones.
func (s *S3) failure(ctx context.Context, operation Operation, key string, err error) error {
	var already *Error
	if errors.As(err, &already) {
		return err
	}
	result := &Error{Operation: operation, Bucket: s.name(), Key: key, Err: err}
	said := s.sdk.answer(err)
	if message := strings.TrimSpace(said.message); message != "" {
		result.Err = errors.New(message) // the SDK's own error says the same several times over
	}
	switch {
	case errors.Is(err, ErrChecksum):
		result.Kind, result.Status = ErrChecksum, ErrChecksum.Error()
	case errors.Is(err, ErrInvalidKey):
		result.Kind, result.Status = ErrInvalidKey, ErrInvalidKey.Error()
	case errors.Is(err, errStalled), errors.Is(context.Cause(ctx), errStalled):
		result.Kind, result.Status, result.Err = ErrUnavailable, "stalled", errStalled
	case ctx.Err() != nil:
		result.Status, result.Err = "cancelled", ctx.Err()
	case isBodyError(err):
		result.Status = "body"
	case said.given():
		result.Kind, result.Status = kindOf(operation, said.status, said.code), statusText(said.status, said.code)
		if result.Kind == ErrNotFound {
			result.Err = nil
		}
		s.explainRegion(result, said)
	default:
		result.Status, result.Kind = kindWithoutAnswer(err)
	}
	// An answer to HEAD has no body to say it in: what cannot be a bad request is a token that has expired.
	silent := operation == OpStat && said.status == http.StatusBadRequest && said.code == ""
	if (silent || isExpired(said.code)) && s.credentials.forget() {
		result.Kind = ErrUnavailable
	}
	return result
}

func kindOf(operation Operation, status int, code string) error {
	if kind := kindOfCode(code); kind != nil && !(kind == ErrNotFound && operation == OpCreateBucket) {
		return kind
	}
	switch {
	case status == http.StatusNotFound && code != codeNoSuchBucket && operation != OpCreateBucket && operation != OpList:
		return ErrNotFound
	case status == http.StatusForbidden, status == http.StatusUnauthorized:
		return ErrDenied
	case status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, status == http.StatusConflict:
		return ErrUnavailable
	case status >= http.StatusInternalServerError && status != http.StatusNotImplemented:
		return ErrUnavailable
	}
	return nil
}

// kindWithoutAnswer is for requests that got no answer. The network may come back, a certificate will not change, and
// credentials may become available again (a metadata service that restarts).
func kindWithoutAnswer(err error) (status string, kind error) {
	var unknownAuthority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var verification *tls.CertificateVerificationError
	if errors.As(err, &unknownAuthority) || errors.As(err, &hostname) || errors.As(err, &verification) {
		return "certificate", nil
	}
	if isCredentialsError(err) {
		return statusCredentials, ErrUnavailable
	}
	return "network", ErrUnavailable
}

// statusCredentials is the status of a request that could not be signed for want of credentials.
const statusCredentials = "credentials"

func isCredentialsError(err error) bool {
	var failure *credentialError
	return errors.As(err, &failure)
}

func statusText(status int, code string) string {
	if status == 0 {
		return code
	}
	return strconv.Itoa(status) + " " + cmp.Or(code, statusName(status))
}

// statusName is what a status is called, as if it were a code: BadGateway.
func statusName(status int) string { return strings.ReplaceAll(http.StatusText(status), " ", "") }

func (s *S3) isMissingKey(err error) bool {
	said := s.sdk.answer(err)
	return said.status == http.StatusNotFound && said.code != codeNoSuchBucket
}

var expectedRegion = regexp.MustCompile(`expecting ['"]([a-z0-9-]+)['"]`)

// explainRegion adds which region the store expects, where it says so.
func (s *S3) explainRegion(result *Error, said storeAnswer) {
	region := said.region
	if match := expectedRegion.FindStringSubmatch(said.message); region == "" && match != nil {
		region = match[1]
	}
	redirected := said.status/100 == 3 || said.code == codeRedirect
	refused := redirected || said.code == codeBadRegion || said.status == http.StatusBadRequest
	if region != "" && region != s.config.Region && refused {
		result.Kind = nil
		result.Err = &regionError{given: s.config.Region, expected: region}
	}
}

// regionError says that the bucket is in another region.
type regionError struct{ given, expected string }

// Error implements error.
func (e *regionError) Error() string {
	return "the bucket is in region " + e.expected + ", not in " + e.given
}

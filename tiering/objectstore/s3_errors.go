package objectstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
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
	var api smithy.APIError
	status, code := statusOf(err), ""
	if errors.As(err, &api) {
		code = api.ErrorCode()
		if message := strings.TrimSpace(api.ErrorMessage()); message != "" {
			result.Err = errors.New(message) // the SDK's own error says the same several times over
		}
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
	case status != 0:
		result.Kind, result.Status = kindOf(operation, status, code), statusText(status, code)
		if result.Kind == ErrNotFound {
			result.Err = nil
		}
		s.explainRegion(result, err, code)
	default:
		result.Status, result.Kind = kindWithoutAnswer(err)
	}
	if cache, ok := s.credentials.(*aws.CredentialsCache); ok && isExpired(code) {
		cache.Invalidate()
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
	text := err.Error()
	return strings.Contains(text, "get identity: get credentials") || strings.Contains(text, "refresh cached credentials")
}

func statusText(status int, code string) string {
	if code == "" || code == strconv.Itoa(status) {
		code = strings.ReplaceAll(http.StatusText(status), " ", "")
	}
	return strconv.Itoa(status) + " " + code
}

// statusOf is the HTTP status of the answer an error came from, 0 if there was none.
func statusOf(err error) int {
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) {
		return response.HTTPStatusCode()
	}
	return 0
}

func isMissingKey(err error) bool {
	var api smithy.APIError
	code := ""
	if errors.As(err, &api) {
		code = api.ErrorCode()
	}
	return statusOf(err) == http.StatusNotFound && code != codeNoSuchBucket
}

var expectedRegion = regexp.MustCompile(`expecting ['"]([a-z0-9-]+)['"]`)

// explainRegion adds which region the store expects, where it says so.
func (s *S3) explainRegion(result *Error, err error, code string) {
	region := ""
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) && response.HTTPResponse() != nil {
		region = response.HTTPResponse().Header.Get("X-Amz-Bucket-Region")
	}
	if match := expectedRegion.FindStringSubmatch(err.Error()); region == "" && match != nil {
		region = match[1]
	}
	redirected := statusOf(err)/100 == 3 || code == codeRedirect
	refused := redirected || code == codeBadRegion || statusOf(err) == http.StatusBadRequest
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

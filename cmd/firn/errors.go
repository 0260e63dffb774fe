package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// The exit statuses. Anything but success is non-zero; scripts may tell the kinds apart.
const (
	exitFailed  = 1
	exitUsage   = 2
	exitPartial = 3 // some of several things worked
	exitDenied  = 4 // not authenticated, or not authorised
)

// usageError is a wrong command line.
type usageError struct {
	command string
	err     error
}

func (e usageError) Error() string { return fmt.Sprintf("%v (see %s --help)", e.err, e.command) }
func (e usageError) Unwrap() error { return e.err }

// partialError says that some of several things failed; the command's output tells which.
type partialError struct{ err error }

func (e partialError) Error() string { return e.err.Error() }
func (e partialError) Unwrap() error { return e.err }

// failures turns the errors of a command over several things into one error: none, all of them, or a part. The noun
// says what they are.
func failures(noun string, total int, failed []error) error {
	switch {
	case len(failed) == 0:
		return nil
	case total == 1:
		return failed[0]
	case len(failed) == total:
		return fmt.Errorf("all %d %ss failed, the first with: %w", total, noun, failed[0])
	}
	return partialError{fmt.Errorf("%d of %d %ss failed, the first with: %w", len(failed), total, noun, failed[0])}
}

func exitStatus(err error) int {
	var usage usageError
	var partial partialError
	switch {
	case err == nil:
		return 0
	case isDenied(err):
		return exitDenied
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &partial):
		return exitPartial
	}
	return exitFailed
}

// isDenied tells whether the cluster knows what was asked for and does not allow it.
func isDenied(err error) bool {
	var code *kerr.Error
	if !errors.As(err, &code) {
		return false
	}
	switch code.Code {
	case kerr.TopicAuthorizationFailed.Code, kerr.GroupAuthorizationFailed.Code, kerr.ClusterAuthorizationFailed.Code,
		kerr.TransactionalIDAuthorizationFailed.Code, kerr.DelegationTokenAuthorizationFailed.Code,
		kerr.SaslAuthenticationFailed.Code:
		return true
	}
	return false
}

// errorLine is what a failed command prints: one line, whatever is inside the error.
func errorLine(ctx context.Context, err error) string {
	if err == nil {
		return ""
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	lines := strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	line := strings.Join(lines, "; ")
	if advice := adviceFor(err); advice != "" {
		line = strings.TrimRight(line, ".") + "; " + advice
	}
	return line
}

// adviceFor is what to do about the Kafka errors that people meet first.
func adviceFor(err error) string {
	var code *kerr.Error
	if !errors.As(err, &code) {
		return ""
	}
	switch code.Code {
	case kerr.UnknownTopicOrPartition.Code:
		return "`firn topic list` shows the topics there are, `firn topic create` makes one"
	case kerr.TopicAlreadyExists.Code:
		return "--if-not-exists accepts that, `firn topic alter` changes its settings"
	case kerr.MessageTooLarge.Code:
		return "raise the topic's max.message.bytes with `firn topic alter`, or send smaller records"
	case kerr.InvalidReplicationFactor.Code:
		return "give -r no larger than the number of brokers"
	case kerr.NotEnoughReplicas.Code, kerr.NotEnoughReplicasAfterAppend.Code:
		return "`firn topic describe` shows which replicas are in sync"
	case kerr.OffsetOutOfRange.Code:
		return "`firn topic describe` shows the offsets there are"
	case kerr.GroupIDNotFound.Code:
		return "`firn group list` shows the groups there are"
	case kerr.NonEmptyGroup.Code:
		return "stop its members first: `firn group describe` shows who they are"
	case kerr.GroupSubscribedToTopic.Code:
		return "members of the group read this topic: stop them first"
	case kerr.TransactionalIDNotFound.Code:
		return "`firn txn list` shows the transactional ids there are"
	case kerr.ProducerFenced.Code, kerr.InvalidProducerEpoch.Code:
		return "another producer has taken over the transactional id, or its transaction has timed out"
	case kerr.InvalidRecord.Code:
		return "`firn topic describe` shows what the topic demands of records"
	}
	if isDenied(err) {
		return "ask for the right to do this"
	}
	return ""
}

// brokerFailure is why a request to the brokers failed. Where one broker was asked, kadm's count of requests is noise.
func brokerFailure(err error) error {
	var several *kadm.ShardErrors
	if errors.As(err, &several) && len(several.Errs) == 1 {
		return several.Errs[0].Err
	}
	return err
}

// kafkaError is a code of the protocol together with the broker's own explanation, where it sent one.
func kafkaError(err error, message string) error {
	if err == nil || message == "" {
		return err
	}
	var code *kerr.Error
	if errors.As(err, &code) {
		return brokerError{code: code, message: message}
	}
	return fmt.Errorf("%w: %s", err, message)
}

// brokerError prints a code's name with the broker's words, which know more than the protocol's description of it.
type brokerError struct {
	code    *kerr.Error
	message string
}

func (e brokerError) Error() string { return e.code.Message + ": " + e.message }
func (e brokerError) Unwrap() error { return e.code }

package group

import "github.com/firnlog/firn/internal/kafka"

// errorCode is what a client is told of an error. That its group has outgrown a batch of the journal is nothing that it
// could do anything about.
func errorCode(err error) kafka.Errno {
	switch code := kafka.CodeOf(err); code {
	case kafka.MessageTooLarge, kafka.RecordListTooLarge:
		return kafka.UnknownServerError
	default:
		return code
	}
}

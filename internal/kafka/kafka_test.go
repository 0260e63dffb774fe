package kafka

import (
	"errors"
	"fmt"
	"testing"
)

func TestIDsArePrintedAsKafkaPrintsThem(t *testing.T) {
	id := UUID{0xfb, 0xff, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}
	if got := id.String(); got != "-_8BAgMEBQYHCAkKCwwNDg" {
		t.Errorf("printed %s", got)
	}
	if got := id.Hex(); got != "fbff0102030405060708090a0b0c0d0e" {
		t.Errorf("in hexadecimal %s", got)
	}
	if back, err := ParseUUID(id.String()); err != nil || back != id {
		t.Errorf("read back %v, %v", back, err)
	}
	for _, text := range []string{"", "short", "-_8BAgMEBQYHCAkKCwwNDg==", "-_8BAgMEBQYHCAkKCwwNDgA", "!!8BAgMEBQYHCAkKCwwNDg"} {
		if _, err := ParseUUID(text); err == nil {
			t.Errorf("%q is taken for an id", text)
		}
	}
	if id.IsZero() || !(UUID{}).IsZero() {
		t.Error("which id is unset")
	}
}

func TestPartitionsAreNamedAsTheirFolders(t *testing.T) {
	if got := (TopicPartition{Topic: "a-b", Partition: 12}).String(); got != "a-b-12" {
		t.Errorf("printed %s", got)
	}
}

func TestCodeOfFindsTheCodeUnderWrapping(t *testing.T) {
	tests := []struct {
		err  error
		want Errno
	}{
		{nil, None},
		{NotLeaderOrFollower, NotLeaderOrFollower},
		{fmt.Errorf("append to t-0: %w", KafkaStorageError), KafkaStorageError},
		{fmt.Errorf("twice: %w", fmt.Errorf("wrapped: %w", OffsetOutOfRange)), OffsetOutOfRange},
		{errors.Join(errors.New("first"), InvalidConfig), InvalidConfig},
		{errors.New("no code"), UnknownServerError},
	}
	for _, test := range tests {
		if got := CodeOf(test.err); got != test.want {
			t.Errorf("code of %v is %d, want %d", test.err, got, test.want)
		}
	}
}

func TestRetriableIsWhatClientsTakeItFor(t *testing.T) {
	for code, want := range map[Errno]bool{
		NotLeaderOrFollower: true, KafkaStorageError: true, RequestTimedOut: true, CoordinatorNotAvailable: true,
		InvalidRecord: false, MessageTooLarge: false, None: false, Errno(32000): false,
	} {
		if got := code.Retriable(); got != want {
			t.Errorf("%d retriable: %v", code, got)
		}
	}
	if text := Errno(32000).Error(); text != "Kafka error code 32000" {
		t.Errorf("an unknown code says %q", text)
	}
}

package records

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"
)

// Kind is which kind of record a key is of: the int16 that it begins with.
type Kind int16

// The kinds of records. What begins with others (of share and streams groups) is not this coordinator's.
const (
	LegacyOffsetCommit        Kind = 0 // as OffsetCommit, written before Kafka 0.8.2
	OffsetCommit              Kind = 1 // a committed offset
	GroupMetadata             Kind = 2 // a group of the classic protocol with its members
	ConsumerMetadata          Kind = 3 // a KIP-848 group: its epoch
	ConsumerPartitions        Kind = 4 // what the group knew of its topics; Kafka 4.1 and later only remove it
	ConsumerMember            Kind = 5 // a member: its subscription
	ConsumerTarget            Kind = 6 // the target assignment: its epoch
	ConsumerTargetMember      Kind = 7 // the target assignment of a member
	ConsumerCurrentMember     Kind = 8 // what a member has, and its epoch
	ConsumerRegularExpression Kind = 16
)

// Key is the key of a record. Which fields it has depends on the kind.
type Key struct {
	Kind      Kind
	Group     string
	Topic     string // of OffsetCommit
	Partition int32  // of OffsetCommit
	Member    string // of ConsumerMember, ConsumerTargetMember, ConsumerCurrentMember
	Regex     string // of ConsumerRegularExpression
}

// Append appends the encoded key.
func (k Key) Append(dst []byte) []byte {
	dst = kbin.AppendString(kbin.AppendInt16(dst, int16(k.Kind)), k.Group)
	switch k.Kind {
	case LegacyOffsetCommit, OffsetCommit:
		dst = kbin.AppendInt32(kbin.AppendString(dst, k.Topic), k.Partition)
	case ConsumerMember, ConsumerTargetMember, ConsumerCurrentMember:
		dst = kbin.AppendString(dst, k.Member)
	case ConsumerRegularExpression:
		dst = kbin.AppendString(dst, k.Regex)
	}
	return dst
}

// Encode returns the encoded key.
func (k Key) Encode() []byte { return k.Append(nil) }

// ParseKey reads a key. Of a kind that is none of the above only the kind is read, without an error.
func ParseKey(encoded []byte) (Key, error) {
	b := kbin.Reader{Src: encoded}
	key := Key{Kind: Kind(b.Int16())}
	if !key.Kind.known() {
		return key, damaged("key", &b)
	}
	key.Group = b.String()
	switch key.Kind {
	case LegacyOffsetCommit, OffsetCommit:
		key.Topic, key.Partition = b.String(), b.Int32()
	case ConsumerMember, ConsumerTargetMember, ConsumerCurrentMember:
		key.Member = b.String()
	case ConsumerRegularExpression:
		key.Regex = b.String()
	}
	return key, damaged("key", &b)
}

func (k Kind) known() bool {
	return k >= LegacyOffsetCommit && k <= ConsumerCurrentMember || k == ConsumerRegularExpression
}

// Prefix is what the keys of all records of a kind begin with.
func Prefix(kind Kind) []byte { return kbin.AppendInt16(nil, int16(kind)) }

// GroupPrefix is what the keys of all records of a kind of one group begin with.
func GroupPrefix(kind Kind, group string) []byte { return kbin.AppendString(Prefix(kind), group) }

// TopicPrefix is what the keys of the offsets of one group in one topic begin with.
func TopicPrefix(group, topic string) []byte {
	return kbin.AppendString(GroupPrefix(OffsetCommit, group), topic)
}

// damaged is the error of a reader that did not find what it looked for.
func damaged(what string, b *kbin.Reader) error {
	if !b.Ok() {
		return fmt.Errorf("a %s in __consumer_offsets ends too early", what)
	}
	return nil
}

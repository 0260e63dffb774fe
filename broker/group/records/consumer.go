package records

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"

	"github.com/firnlog/firn/internal/kafka"
)

// valueVersion is that of all values of KIP-848. They are flexible: fields to come are tagged, and ignored here.
const valueVersion int16 = 0

// TopicPartitions are partitions of a topic.
type TopicPartitions struct {
	TopicID    kafka.TopicID
	Partitions []int32
	// Epochs, of the same length, are those in which the member got the partitions (tag 0). Only current assignments have
	// them, and only those that Kafka 4.4 or this broker wrote.
	Epochs []int32
}

// ConsumerMetadataValue is the value of ConsumerMetadata.
type ConsumerMetadataValue struct {
	Epoch        int32
	MetadataHash int64 // of the topics that the group reads (tag 0); 0 if it is not known
}

// ConsumerMemberValue is the value of ConsumerMember.
type ConsumerMemberValue struct {
	InstanceID         *string
	RackID             *string
	ClientID           string
	ClientHost         string
	Topics             []string
	Regex              *string
	RebalanceTimeoutMs int32
	ServerAssignor     *string
	Classic            *ClassicMember // of a member that speaks the classic protocol (tag 0)
}

// ClassicMember is what is kept of a member of a KIP-848 group that speaks the classic protocol.
type ClassicMember struct {
	SessionTimeoutMs int32
	Protocols        []ClassicProtocol
}

// ClassicProtocol is an assignor that a classic member offers, with its metadata for it.
type ClassicProtocol struct {
	Name     string
	Metadata []byte
}

// ConsumerTargetValue is the value of ConsumerTarget.
type ConsumerTargetValue struct {
	Epoch       int32
	TimestampMs int64 // when it was computed (tag 0); 0 if it is not known
}

// ConsumerTargetMemberValue is the value of ConsumerTargetMember.
type ConsumerTargetMemberValue struct{ Assigned []TopicPartitions }

// ConsumerCurrentMemberValue is the value of ConsumerCurrentMember.
type ConsumerCurrentMemberValue struct {
	Epoch             int32
	PreviousEpoch     int32
	State             int8 // as Kafka numbers them: 0 stable, 1 unrevoked partitions, 2 unreleased partitions
	Assigned          []TopicPartitions
	PendingRevocation []TopicPartitions
}

// ConsumerRegularExpressionValue is the value of ConsumerRegularExpression: what it was resolved to.
type ConsumerRegularExpressionValue struct {
	Topics      []string
	Version     int64 // of the metadata
	TimestampMs int64
}

// Append appends the encoded value.
func (v *ConsumerMetadataValue) Append(dst []byte) []byte {
	dst = kbin.AppendInt32(appendVersion(dst), v.Epoch)
	return appendTaggedInt64(dst, v.MetadataHash)
}

// Parse reads the value.
func (v *ConsumerMetadataValue) Parse(encoded []byte) error {
	return parse(encoded, func(b *kbin.Reader) {
		*v = ConsumerMetadataValue{Epoch: b.Int32()}
		tags(b, func(tag *kbin.Reader) { v.MetadataHash = tag.Int64() })
	})
}

// Append appends the encoded value.
func (v *ConsumerMemberValue) Append(dst []byte) []byte {
	dst = kbin.AppendCompactNullableString(appendVersion(dst), v.InstanceID)
	dst = kbin.AppendCompactNullableString(dst, v.RackID)
	dst = kbin.AppendCompactString(dst, v.ClientID)
	dst = kbin.AppendCompactString(dst, v.ClientHost)
	dst = appendStrings(dst, v.Topics)
	dst = kbin.AppendCompactNullableString(dst, v.Regex)
	dst = kbin.AppendInt32(dst, v.RebalanceTimeoutMs)
	dst = kbin.AppendCompactNullableString(dst, v.ServerAssignor)
	if v.Classic == nil {
		return appendTags(dst, nil)
	}
	const present = 1 // a nullable struct is a byte that says whether it is there, and its fields
	return appendTags(dst, v.Classic.append([]byte{present}))
}

// Parse reads the value.
func (v *ConsumerMemberValue) Parse(encoded []byte) error {
	return parse(encoded, func(b *kbin.Reader) {
		*v = ConsumerMemberValue{
			InstanceID: b.CompactNullableString(), RackID: b.CompactNullableString(),
			ClientID: b.CompactString(), ClientHost: b.CompactString(),
			Topics: parseStrings(b), Regex: b.CompactNullableString(),
			RebalanceTimeoutMs: b.Int32(), ServerAssignor: b.CompactNullableString(),
		}
		tags(b, func(tag *kbin.Reader) {
			if tag.Uvarint() != 0 {
				v.Classic = parseClassicMember(tag)
			}
		})
	})
}

func (m *ClassicMember) append(dst []byte) []byte {
	dst = kbin.AppendInt32(dst, m.SessionTimeoutMs)
	dst = kbin.AppendCompactArrayLen(dst, len(m.Protocols))
	for _, protocol := range m.Protocols {
		dst = kbin.AppendCompactString(dst, protocol.Name)
		dst = appendTags(kbin.AppendCompactBytes(dst, protocol.Metadata), nil)
	}
	return appendTags(dst, nil)
}

func parseClassicMember(b *kbin.Reader) *ClassicMember {
	m := &ClassicMember{SessionTimeoutMs: b.Int32()}
	for range b.CompactArrayLen() {
		protocol := ClassicProtocol{Name: b.CompactString(), Metadata: b.CompactBytes()}
		tags(b, nil)
		m.Protocols = append(m.Protocols, protocol)
	}
	tags(b, nil)
	return m
}

// Append appends the encoded value.
func (v *ConsumerTargetValue) Append(dst []byte) []byte {
	dst = kbin.AppendInt32(appendVersion(dst), v.Epoch)
	return appendTaggedInt64(dst, v.TimestampMs)
}

// Parse reads the value.
func (v *ConsumerTargetValue) Parse(encoded []byte) error {
	return parse(encoded, func(b *kbin.Reader) {
		*v = ConsumerTargetValue{Epoch: b.Int32()}
		tags(b, func(tag *kbin.Reader) { v.TimestampMs = tag.Int64() })
	})
}

// Append appends the encoded value.
func (v *ConsumerTargetMemberValue) Append(dst []byte) []byte {
	return appendTags(appendPartitions(appendVersion(dst), v.Assigned), nil)
}

// Parse reads the value.
func (v *ConsumerTargetMemberValue) Parse(encoded []byte) error {
	return parse(encoded, func(b *kbin.Reader) {
		*v = ConsumerTargetMemberValue{Assigned: parsePartitions(b)}
		tags(b, nil)
	})
}

// Append appends the encoded value.
func (v *ConsumerCurrentMemberValue) Append(dst []byte) []byte {
	dst = kbin.AppendInt32(appendVersion(dst), v.Epoch)
	dst = kbin.AppendInt32(dst, v.PreviousEpoch)
	dst = kbin.AppendInt8(dst, v.State)
	dst = appendPartitions(dst, v.Assigned)
	return appendTags(appendPartitions(dst, v.PendingRevocation), nil)
}

// Parse reads the value.
func (v *ConsumerCurrentMemberValue) Parse(encoded []byte) error {
	return parse(encoded, func(b *kbin.Reader) {
		*v = ConsumerCurrentMemberValue{
			Epoch: b.Int32(), PreviousEpoch: b.Int32(), State: b.Int8(),
			Assigned: parsePartitions(b), PendingRevocation: parsePartitions(b),
		}
		tags(b, nil)
	})
}

// Append appends the encoded value.
func (v *ConsumerRegularExpressionValue) Append(dst []byte) []byte {
	dst = kbin.AppendInt64(appendStrings(appendVersion(dst), v.Topics), v.Version)
	return appendTags(kbin.AppendInt64(dst, v.TimestampMs), nil)
}

// Parse reads the value.
func (v *ConsumerRegularExpressionValue) Parse(encoded []byte) error {
	return parse(encoded, func(b *kbin.Reader) {
		*v = ConsumerRegularExpressionValue{Topics: parseStrings(b), Version: b.Int64(), TimestampMs: b.Int64()}
		tags(b, nil)
	})
}

func appendVersion(dst []byte) []byte { return kbin.AppendInt16(dst, valueVersion) }

// parse reads a value of version 0.
func parse(encoded []byte, fields func(b *kbin.Reader)) error {
	b := kbin.Reader{Src: encoded}
	if version := b.Int16(); version != valueVersion {
		return fmt.Errorf("a value in __consumer_offsets has version %d, which a newer release wrote", version)
	}
	fields(&b)
	return damaged("value", &b)
}

// appendTags appends the tagged fields: tag 0, unless it is empty.
func appendTags(dst, tag0 []byte) []byte {
	if len(tag0) == 0 {
		return append(dst, 0)
	}
	dst = kbin.AppendUvarint(append(dst, 1, 0), uint32(len(tag0)))
	return append(dst, tag0...)
}

func appendTaggedInt64(dst []byte, value int64) []byte {
	if value == 0 {
		return appendTags(dst, nil)
	}
	return appendTags(dst, kbin.AppendInt64(nil, value))
}

// tags reads tagged fields: tag 0 by the function, if there is one; others are skipped.
func tags(b *kbin.Reader, tag0 func(tag *kbin.Reader)) {
	for count := b.Uvarint(); count > 0 && b.Ok(); count-- {
		tag := b.Uvarint()
		content := kbin.Reader{Src: b.Span(int(b.Uvarint()))}
		if tag == 0 && tag0 != nil {
			tag0(&content)
		}
	}
}

func appendStrings(dst []byte, list []string) []byte {
	dst = kbin.AppendCompactArrayLen(dst, len(list))
	for _, one := range list {
		dst = kbin.AppendCompactString(dst, one)
	}
	return dst
}

func parseStrings(b *kbin.Reader) []string {
	var list []string
	for range b.CompactArrayLen() {
		list = append(list, b.CompactString())
	}
	return list
}

func appendPartitions(dst []byte, list []TopicPartitions) []byte {
	dst = kbin.AppendCompactArrayLen(dst, len(list))
	for _, one := range list {
		dst = appendInts(kbin.AppendUuid(dst, one.TopicID), one.Partitions)
		var epochs []byte
		if len(one.Epochs) > 0 {
			epochs = appendInts(nil, one.Epochs)
		}
		dst = appendTags(dst, epochs)
	}
	return dst
}

func parsePartitions(b *kbin.Reader) []TopicPartitions {
	var list []TopicPartitions
	for range b.CompactArrayLen() {
		one := TopicPartitions{TopicID: b.Uuid(), Partitions: parseInts(b)}
		tags(b, func(tag *kbin.Reader) { one.Epochs = parseInts(tag) })
		list = append(list, one)
	}
	return list
}

func appendInts(dst []byte, list []int32) []byte {
	dst = kbin.AppendCompactArrayLen(dst, len(list))
	for _, one := range list {
		dst = kbin.AppendInt32(dst, one)
	}
	return dst
}

func parseInts(b *kbin.Reader) []int32 {
	var list []int32
	for range b.CompactArrayLen() {
		list = append(list, b.Int32())
	}
	return list
}

package metastore

import (
	"encoding/binary"
	"fmt"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
)

// The values under the keys of keys.go, in the building blocks of package command: a version byte, then the fields in
// the order of the functions below. Numbers alone are 8 bytes, big endian. Topics, reservations, garbage and deleted
// topics have gained fields and are written in a second version; the first is still read.
const (
	recordVersion  = 1
	recordVersion2 = 2
)

// parseRecord reads a value of the first version with read, which takes the fields behind the version.
func parseRecord[T any](what string, value []byte, read func(c *command.Cursor) T) (T, error) {
	return parseVersions(what, value, recordVersion, func(c *command.Cursor, _ uint8) T { return read(c) })
}

// parseVersions reads a value of any version up to the newest.
func parseVersions[T any](what string, value []byte, newest uint8, read func(*command.Cursor, uint8) T) (T, error) {
	c := command.NewCursor(value)
	version := c.Uint8()
	if version < recordVersion || version > newest {
		c.Fail(fmt.Sprintf("version %d is not known to this program", version))
	}
	record := read(&c, version)
	if err := c.Finish(); err != nil {
		var none T
		return none, fmt.Errorf("%s in the state database: %w", what, err)
	}
	return record, nil
}

func encodeNumber(value int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(value)) }

// parseNumber reads a number; an absent one is 0.
func parseNumber(what string, value []byte) (int64, error) {
	switch len(value) {
	case 0:
		return 0, nil
	case 8:
		return int64(binary.BigEndian.Uint64(value)), nil
	}
	return 0, fmt.Errorf("%s in the state database has %d bytes instead of 8", what, len(value))
}

func encodeBroker(broker *image.Broker) []byte {
	dst := []byte{recordVersion}
	dst = binary.AppendVarint(dst, broker.Epoch)
	dst = append(dst, broker.Incarnation[:]...)
	dst = command.AppendNullableString(dst, broker.Rack)
	endpoints := make([]command.Endpoint, len(broker.Listeners))
	for i, endpoint := range broker.Listeners {
		endpoints[i] = command.Endpoint(endpoint)
	}
	dst = command.AppendEndpoints(dst, endpoints)
	return command.AppendUUIDs(dst, broker.Directories)
}

func parseBroker(id kafka.BrokerID, value []byte) (*image.Broker, error) {
	return parseRecord("a broker", value, func(c *command.Cursor) *image.Broker {
		return &image.Broker{
			ID:          id,
			Epoch:       c.Int64(),
			Incarnation: c.UUID(),
			Rack:        c.NullableString(),
			Listeners:   imageEndpoints(c.Endpoints()),
			Directories: c.UUIDs(),
		}
	})
}

func imageEndpoints(endpoints []command.Endpoint) []image.Endpoint {
	if len(endpoints) == 0 {
		return nil
	}
	listeners := make([]image.Endpoint, len(endpoints))
	for i, endpoint := range endpoints {
		listeners[i] = image.Endpoint(endpoint)
	}
	return listeners
}

func encodeTopic(topic *image.Topic) []byte {
	dst := []byte{recordVersion2}
	dst = command.AppendString(dst, topic.Name)
	dst = command.AppendBool(dst, topic.Internal)
	dst = command.AppendConfigs(dst, topic.Configs)
	return command.AppendUUIDs(dst, topic.Origins)
}

func parseTopic(id kafka.TopicID, value []byte) (*image.Topic, error) {
	return parseVersions("a topic", value, recordVersion2, func(c *command.Cursor, version uint8) *image.Topic {
		topic := &image.Topic{ID: id, Name: c.String(), Internal: c.Bool(), Configs: c.Configs()}
		if version > recordVersion {
			topic.Origins = c.UUIDs()
		}
		return topic
	})
}

func encodePartition(partition *image.Partition) []byte {
	dst := []byte{recordVersion}
	dst = binary.AppendVarint(dst, int64(partition.Leader))
	dst = binary.AppendVarint(dst, int64(partition.Epoch))
	dst = binary.AppendVarint(dst, int64(partition.PartitionEpoch))
	dst = command.AppendBrokers(dst, partition.Replicas)
	dst = command.AppendUUIDs(dst, partition.Directories)
	return command.AppendBrokers(dst, partition.ISR)
}

func parsePartitionRecord(value []byte) (image.Partition, error) {
	return parseRecord("a partition", value, func(c *command.Cursor) image.Partition {
		return image.Partition{
			Leader:         c.Broker(),
			Epoch:          c.LeaderEpoch(),
			PartitionEpoch: c.Int32(),
			Replicas:       c.Brokers(),
			Directories:    c.UUIDs(),
			ISR:            c.Brokers(),
		}
	})
}

func encodeConfigs(configs map[string]string) []byte {
	return command.AppendConfigs([]byte{recordVersion}, configs)
}

func parseConfigs(value []byte) (map[string]string, error) {
	return parseRecord("settings", value, (*command.Cursor).Configs)
}

func encodeTier(tier *image.TierState) []byte {
	dst := []byte{recordVersion}
	dst = binary.AppendVarint(dst, tier.Start)
	dst = binary.AppendVarint(dst, tier.End)
	dst = binary.AppendVarint(dst, int64(tier.LeaderEpoch))
	dst = binary.AppendVarint(dst, tier.Version)
	dst = binary.AppendVarint(dst, tier.Bytes)
	return binary.AppendVarint(dst, tier.Segments)
}

func parseTier(value []byte) (*image.TierState, error) {
	return parseRecord("a tier state", value, func(c *command.Cursor) *image.TierState {
		return &image.TierState{
			Start: c.Int64(), End: c.Int64(), LeaderEpoch: c.LeaderEpoch(),
			Version: c.Int64(), Bytes: c.Int64(), Segments: c.Int64(),
		}
	})
}

// reservation is an upload id that may be committed until it lapses.
type reservation struct {
	leaderEpoch kafka.LeaderEpoch
	lowest      int64 // an object under the id begins there or later
	deadlineMs  int64
	rewrite     bool // the object may take the place of something, and be sealed
}

func (r reservation) encode() []byte {
	dst := []byte{recordVersion2}
	dst = binary.AppendVarint(dst, int64(r.leaderEpoch))
	dst = binary.AppendVarint(dst, r.lowest)
	dst = binary.AppendVarint(dst, r.deadlineMs)
	return command.AppendBool(dst, r.rewrite)
}

func parseReservation(value []byte) (reservation, error) {
	return parseVersions("a reservation", value, recordVersion2, func(c *command.Cursor, version uint8) reservation {
		r := reservation{leaderEpoch: c.LeaderEpoch(), lowest: c.Int64(), deadlineMs: c.Int64()}
		if version > recordVersion {
			r.rewrite = c.Bool()
		}
		return r
	})
}

func encodeGarbage(garbage command.Garbage) []byte {
	return command.AppendGarbage([]byte{recordVersion2}, garbage)
}

func parseGarbage(key, value []byte) (command.Garbage, error) {
	tp, upload := parseUpload(key)
	return parseVersions("garbage", value, recordVersion2, func(c *command.Cursor, version uint8) command.Garbage {
		if version > recordVersion {
			garbage := c.Garbage()
			garbage.Partition = tp
			return garbage
		}
		return command.Garbage{
			Partition: tp, UploadID: upload, Kind: command.GarbageKind(c.Uint8()),
			LeaderEpoch: c.LeaderEpoch(), BaseOffset: c.Int64(), EndOffset: c.Int64(),
			ObjectBytes: c.Int64(), ElapsedMs: c.Int64(),
		}
	})
}

func encodeDeletedTopic(topic command.DeletedTopic) []byte {
	dst := command.AppendString([]byte{recordVersion2}, topic.Name)
	dst = binary.AppendVarint(dst, int64(topic.Partitions))
	dst = binary.AppendVarint(dst, topic.ElapsedMs)
	dst = binary.AppendUvarint(dst, topic.Index)
	dst = command.AppendUUIDs(dst, topic.Origins)
	return command.AppendBool(dst, topic.Kept)
}

func parseDeletedTopic(id kafka.TopicID, value []byte) (command.DeletedTopic, error) {
	return parseVersions("a deleted topic", value, recordVersion2,
		func(c *command.Cursor, version uint8) command.DeletedTopic {
			topic := command.DeletedTopic{ID: id, Name: c.String(), Partitions: c.Int32(), ElapsedMs: c.Int64()}
			if version > recordVersion {
				topic.Index, topic.Origins, topic.Kept = c.Uvarint(), c.UUIDs(), c.Bool()
			}
			return topic
		})
}

func encodePin(pin command.Pin) []byte { return command.AppendPin([]byte{recordVersion}, pin) }

func parsePin(value []byte) (command.Pin, error) {
	return parseRecord("a pin", value, (*command.Cursor).Pin)
}

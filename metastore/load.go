package metastore

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/metastore/state"
)

// appliedIndex is the index of the last command whose changes are in the database; 0 if there are none.
func appliedIndex(db *state.DB) (uint64, error) {
	value, err := db.Space(state.SpaceApplied).Get(nil)
	if err != nil {
		return 0, fmt.Errorf("read the applied index: %w", err)
	}
	index, err := parseNumber("the applied index", value)
	return uint64(index), err
}

// loadImage builds the image from the database.
func loadImage(db *state.DB) (*image.Image, error) {
	img := image.Empty()
	index, err := appliedIndex(db)
	if err != nil {
		return nil, err
	}
	img.Index = index
	l := loader{image: img, metadata: db.Space(state.SpaceMetadata), tier: db.Space(state.SpaceTier)}
	for _, load := range []func() error{l.loadCluster, l.loadBrokers, l.loadConfigs, l.loadTopics} {
		if err := load(); err != nil {
			return nil, fmt.Errorf("load the metadata: %w", err)
		}
	}
	return l.image, nil
}

type loader struct {
	image    *image.Image
	metadata *state.Keyspace
	tier     *state.Keyspace
}

func (l *loader) loadCluster() error {
	id, err := l.metadata.Get([]byte{keyCluster})
	if err != nil {
		return err
	}
	if len(id) != 0 && len(id) != len(kafka.UUID{}) {
		return errors.New("the cluster id in the state database is damaged")
	}
	copy(l.image.ClusterID[:], id)
	if l.image.NextProducerID, err = l.number("the next producer id", keyNextProducer); err != nil {
		return err
	}
	l.image.ElapsedMs, err = l.number("the elapsed time", keyElapsed)
	return err
}

func (l *loader) number(what string, key byte) (int64, error) {
	value, err := l.metadata.Get([]byte{key})
	if err != nil {
		return 0, err
	}
	return parseNumber(what, value)
}

func (l *loader) loadBrokers() error {
	return l.metadata.Scan([]byte{keyBroker}, func(key, value []byte) error {
		broker, err := parseBroker(kafka.BrokerID(binary.BigEndian.Uint32(key[1:])), value)
		if err == nil {
			l.image = l.image.WithBroker(broker)
		}
		return err
	})
}

// loadConfigs reads the settings of brokers and groups.
func (l *loader) loadConfigs() error {
	for _, kind := range []byte{keyBrokerConfig, keyGroupConfig} {
		err := l.metadata.Scan([]byte{kind}, func(key, value []byte) error {
			configs, err := parseConfigs(value)
			switch {
			case err != nil:
				return err
			case kind == keyGroupConfig:
				l.image = l.image.WithGroupConfig(string(key[1:]), configs)
			default:
				l.image = l.image.WithBrokerConfig(string(key[1:]), configs)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// loadTopics reads topics, partitions and tier states, which all sort by topic id.
func (l *loader) loadTopics() error {
	topics := make(map[kafka.TopicID]*image.Topic)
	err := l.metadata.Scan([]byte{keyTopic}, func(key, value []byte) error {
		id := kafka.UUID(key[1:])
		topic, err := parseTopic(id, value)
		topics[id] = topic
		return err
	})
	if err != nil {
		return err
	}
	if err := l.loadPartitions(topics); err != nil {
		return err
	}
	for _, topic := range topics {
		l.image = l.image.WithTopic(topic)
	}
	return nil
}

func (l *loader) loadPartitions(topics map[kafka.TopicID]*image.Topic) error {
	err := l.metadata.Scan([]byte{keyPartition}, func(key, value []byte) error {
		tp := parsePartition(key)
		partition, err := parsePartitionRecord(value)
		if err != nil {
			return err
		}
		topic := topics[tp.ID]
		if topic == nil || int(tp.Partition) != len(topic.Partitions) {
			return fmt.Errorf("partition %s in the state database has no topic or no predecessor", tp)
		}
		topic.Partitions = append(topic.Partitions, partition)
		return nil
	})
	if err != nil {
		return err
	}
	return l.tier.Scan([]byte{keyTier}, func(key, value []byte) error {
		tp := parsePartition(key)
		tier, err := parseTier(value)
		if err != nil {
			return err
		}
		topic := topics[tp.ID]
		if topic == nil || int(tp.Partition) >= len(topic.Partitions) {
			return fmt.Errorf("the tier state of %s in the state database has no partition", tp)
		}
		topic.Partitions[tp.Partition].Tier = tier
		return nil
	})
}

package image

import (
	"fmt"

	"github.com/firnlog/firn/internal/kafka"
)

// MaxTopicNameLength is Kafka's bound: a partition's folder is named after its topic, and file names end at 255.
const MaxTopicNameLength = 249

// CheckTopicName tells whether a topic may have the name, by Kafka's rules.
func CheckTopicName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("a topic name must not be empty: %w", kafka.InvalidTopic)
	case name == "." || name == "..":
		return fmt.Errorf("a topic must not be named %q: %w", name, kafka.InvalidTopic)
	case len(name) > MaxTopicNameLength:
		return fmt.Errorf("a topic name has at most %d characters, this one has %d: %w",
			MaxTopicNameLength, len(name), kafka.InvalidTopic)
	}
	for i := range len(name) {
		if !legalInName(name[i]) {
			return fmt.Errorf("topic name %q has a character besides ASCII letters, digits, '.', '_' and '-': %w",
				name, kafka.InvalidTopic)
		}
	}
	return nil
}

func legalInName(c byte) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		return true
	}
	return false
}

// CheckNewTopicName tells whether the cluster could create a topic of this name now: a legal one, not taken, and not
// colliding with another.
func (i *Image) CheckNewTopicName(name string) error {
	if err := CheckTopicName(name); err != nil {
		return err
	}
	if _, exists := i.Topic(name); exists {
		return fmt.Errorf("topic %q: %w", name, kafka.TopicAlreadyExists)
	}
	if other, collides := i.Collision(name); collides {
		return fmt.Errorf("topic name %q collides with the existing topic %q: %w", name, other.Name, kafka.InvalidTopic)
	}
	return nil
}

// appendNormalised maps names that must not exist side by side to one key.
func appendNormalised(dst []byte, name string) []byte {
	for i := range len(name) {
		c := name[i]
		if c == '.' {
			c = '_'
		}
		dst = append(dst, c)
	}
	return dst
}

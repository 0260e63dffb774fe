package admin

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/firnlog/firn/broker/admin/view"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/image"
)

// Compaction is the log cleaner as the JSON API needs it.
type Compaction interface {
	// Compact asks for a pass over a log and returns at once.
	Compact(tp kafka.TopicPartition) error
	Status(tp kafka.TopicPartition) (view.PartitionCompaction, error)
}

// compactionStatus answers where the compaction of a topic stands.
func (s *Server) compactionStatus(w http.ResponseWriter, r *http.Request) {
	if topic, partitions, ok := s.compacted(w, r); ok {
		s.writeCompaction(w, topic, partitions)
	}
}

// compact asks for a pass first.
func (s *Server) compact(w http.ResponseWriter, r *http.Request) {
	topic, partitions, ok := s.compacted(w, r)
	if !ok {
		return
	}
	for _, partition := range partitions { // none is begun if one cannot be
		if _, err := s.options.Compaction.Status(kafka.TopicPartition{Topic: topic.Name, Partition: partition}); err != nil {
			s.fail(w, http.StatusConflict, err)
			return
		}
	}
	for _, partition := range partitions {
		tp := kafka.TopicPartition{Topic: topic.Name, Partition: partition}
		if err := s.options.Compaction.Compact(tp); err != nil {
			s.fail(w, http.StatusConflict, err)
			return
		}
	}
	s.writeCompaction(w, topic, partitions)
}

// compacted finds the topic and the partitions that a request names. If it cannot, it has answered.
func (s *Server) compacted(w http.ResponseWriter, r *http.Request) (topic *image.Topic, partitions []int32, ok bool) {
	name := r.PathValue("topic")
	topic, found := s.options.Metadata.Image().Topic(name)
	if !found {
		s.fail(w, http.StatusNotFound, fmt.Errorf("there is no topic %q", name))
		return nil, nil, false
	}
	wanted := r.URL.Query()["partition"]
	for _, text := range wanted {
		partition, err := strconv.ParseInt(text, 10, 32)
		if err != nil || partition < 0 || int(partition) >= len(topic.Partitions) {
			s.fail(w, http.StatusBadRequest, fmt.Errorf("topic %s has no partition %q", name, text))
			return nil, nil, false
		}
		partitions = append(partitions, int32(partition))
	}
	if len(wanted) == 0 {
		for i := range topic.Partitions {
			partitions = append(partitions, int32(i))
		}
	}
	return topic, partitions, true
}

func (s *Server) writeCompaction(w http.ResponseWriter, topic *image.Topic, partitions []int32) {
	answer := view.TopicCompaction{
		Topic: topic.Name, TopicID: topic.ID.String(), Partitions: []view.PartitionCompaction{},
	}
	for _, partition := range partitions {
		status, err := s.options.Compaction.Status(kafka.TopicPartition{Topic: topic.Name, Partition: partition})
		if err != nil {
			s.fail(w, http.StatusConflict, err)
			return
		}
		answer.Partitions = append(answer.Partitions, status)
	}
	s.write(w, http.StatusOK, answer)
}

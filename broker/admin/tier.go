package admin

import (
	"fmt"
	"net/http"

	"github.com/firnlog/firn/broker/admin/view"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/image"
)

// tierStatus answers how far each tiered partition has sunk into the bucket.
func (s *Server) tierStatus(w http.ResponseWriter, _ *http.Request) {
	status := view.TierStatus{Partitions: []view.TierPartition{}}
	for topic := range s.options.Metadata.Image().Topics() {
		for i := range topic.Partitions {
			if topic.Partitions[i].Tier != nil {
				status.Partitions = append(status.Partitions, s.tierPartition(topic, int32(i)))
			}
		}
	}
	s.write(w, http.StatusOK, status)
}

// tierPartition describes one partition. A log that is offline leaves the local fields at −1: what the bucket has is
// known all the same.
func (s *Server) tierPartition(topic *image.Topic, partition int32) view.TierPartition {
	spec := &topic.Partitions[partition]
	answer := view.TierPartition{
		Topic: topic.Name, TopicID: topic.ID.String(), Partition: partition,
		Start: spec.Tier.Start, End: spec.Tier.End, Segments: spec.Tier.Segments, Bytes: spec.Tier.Bytes,
		LeaderEpoch: int32(spec.Epoch),
		LogStart:    -1, LocalStart: -1, HighWatermark: -1, LogEnd: -1, LocalBytes: -1, UploadLagBytes: -1,
	}
	log, err := s.options.Logs(kafka.TopicPartition{Topic: topic.Name, Partition: partition})
	if err != nil {
		return answer
	}
	answer.LogStart, answer.LocalStart = log.LogStartOffset(), log.LocalLogStartOffset()
	answer.HighWatermark, answer.LogEnd, answer.LocalBytes = log.HighWatermark(), log.EndOffset(), log.Size()
	answer.UploadLagBytes = 0
	for _, segment := range log.Segments() {
		if segment.Sealed && segment.EndOffset > spec.Tier.End {
			answer.UploadLagBytes += segment.Size
		}
	}
	return answer
}

// tierObjects lists the segment objects of one topic.
func (s *Server) tierObjects(w http.ResponseWriter, r *http.Request) {
	topic, ok := s.options.Metadata.Image().Topic(r.PathValue("topic"))
	if !ok {
		s.fail(w, http.StatusNotFound, fmt.Errorf("there is no topic %q", r.PathValue("topic")))
		return
	}
	answer := view.TierObjects{Topic: topic.Name, TopicID: topic.ID.String(), Entries: []view.TierEntry{}}
	for i := range topic.Partitions {
		tp := kafka.TopicIDPartition{ID: topic.ID, Partition: int32(i)}
		if topic.Partitions[i].Tier == nil {
			continue
		}
		for entry, err := range s.options.Segments(r.Context(), tp) {
			if err != nil {
				s.fail(w, http.StatusInternalServerError, fmt.Errorf("list the objects of %s-%d: %w", topic.Name, i, err))
				return
			}
			answer.Entries = append(answer.Entries, view.TierEntry{
				Topic: topic.Name, Partition: tp.Partition,
				BaseOffset: entry.BaseOffset, EndOffset: entry.EndOffset,
				LeaderEpoch: int32(entry.LeaderEpoch), UploadID: entry.UploadID.Hex(),
				Key: s.options.ObjectKey(tp, entry), Bytes: entry.ObjectBytes, MaxTimestamp: entry.MaxTimestamp,
			})
		}
	}
	s.write(w, http.StatusOK, answer)
}

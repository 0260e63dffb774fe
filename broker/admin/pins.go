package admin

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/firnlog/firn/broker/admin/view"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
)

// Pins keep objects of the bucket for whoever reads it without a broker.
type Pins interface {
	// Pin pins ranges of a topic, all of it if there are none, and tells what is in the bucket of them. What is not there
	// is cut off.
	Pin(ctx context.Context, topic *image.Topic, ranges []command.PartitionRange, lease time.Duration) (view.Pin, error)
	// Extend gives a pin another lease from now on, and Unpin ends it; command.ErrNoPin if there is none.
	Extend(ctx context.Context, id kafka.UUID, lease time.Duration) error
	Unpin(ctx context.Context, id kafka.UUID) error
	// List lists all pins. The names of their topics are left out.
	List() ([]view.PinStatus, error)
}

const (
	// defaultLease is long enough for a few terabytes.
	defaultLease = 6 * time.Hour
	// maxLease: whoever forgets a pin has deleted history kept, and paid for, for no longer than this.
	maxLease = 7 * 24 * time.Hour
	// maxPinRequestBytes has room for the ranges of command.MaxPinRanges partitions.
	maxPinRequestBytes = 16 << 20
	// pinTimeout ends the wait for the metadata log.
	pinTimeout = 15 * time.Second
)

// refusal is an error that has a status of its own.
type refusal struct {
	status int
	err    error
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

func refuse(status int, format string, args ...any) error {
	return &refusal{status, fmt.Errorf(format, args...)}
}

// failPin answers with the status that fits an error.
func (s *Server) failPin(w http.ResponseWriter, err error) {
	var refused *refusal
	status := http.StatusServiceUnavailable
	switch {
	case errors.As(err, &refused):
		status = refused.status
	case errors.Is(err, command.ErrNoPin), errors.Is(err, kafka.UnknownTopicID):
		status = http.StatusNotFound
	case errors.Is(err, kafka.PolicyViolation):
		status = http.StatusConflict
	}
	s.fail(w, status, err)
}

func (s *Server) pin(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), pinTimeout)
	defer cancel()
	wish, err := s.pinRequest(http.MaxBytesReader(w, r.Body, maxPinRequestBytes))
	if err != nil {
		s.failPin(w, err)
		return
	}
	pin, err := s.options.Pins.Pin(ctx, wish.topic, wish.ranges, wish.lease)
	if err != nil {
		s.failPin(w, fmt.Errorf("pin topic %s: %w", wish.topic.Name, err))
		return
	}
	s.write(w, http.StatusOK, pin)
}

// pinWish is what is to be pinned.
type pinWish struct {
	topic  *image.Topic
	ranges []command.PartitionRange
	lease  time.Duration
}

// pinRequest reads what is to be pinned.
func (s *Server) pinRequest(body io.Reader) (wish pinWish, err error) {
	var request view.PinRequest
	decoder := json.NewDecoder(body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&request); err != nil {
		return wish, refuse(http.StatusBadRequest, `read the request, which is JSON as {"topic":"events"}: %w`, err)
	}
	if wish.lease, err = leaseOf(request.LeaseMs); err != nil {
		return wish, err
	}
	topic, found := s.options.Metadata.Image().Topic(request.Topic)
	if !found {
		return wish, refuse(http.StatusNotFound, "there is no topic %q", request.Topic)
	}
	if !slices.ContainsFunc(topic.Partitions, func(p image.Partition) bool { return p.Tier != nil }) {
		return wish, refuse(http.StatusConflict,
			"nothing of topic %s is in the bucket: remote.storage.enable=true puts it there", topic.Name)
	}
	wish.topic = topic
	wish.ranges, err = pinRanges(topic, request.Partitions)
	return wish, err
}

func leaseOf(leaseMs int64) (time.Duration, error) {
	lease := time.Duration(leaseMs) * time.Millisecond
	switch {
	case leaseMs == 0:
		return defaultLease, nil
	case leaseMs < 0 || leaseMs > maxLease.Milliseconds():
		return 0, refuse(http.StatusBadRequest,
			"a lease of %d ms is none: it has 1 to %d ms (seven days), and can be extended", leaseMs,
			maxLease.Milliseconds())
	}
	return lease, nil
}

// pinRanges are the ranges of a request, by partition.
func pinRanges(topic *image.Topic, wanted []view.PinRange) ([]command.PartitionRange, error) {
	var ranges []command.PartitionRange
	for _, part := range wanted {
		if part.Partition < 0 || int(part.Partition) >= len(topic.Partitions) {
			return nil, refuse(http.StatusBadRequest, "topic %s has no partition %d", topic.Name, part.Partition)
		}
		to := part.To
		if to == 0 {
			to = math.MaxInt64
		}
		if part.From < 0 || to < part.From {
			return nil, refuse(http.StatusBadRequest, "[%d, %d) of partition %d is no range", part.From, part.To, part.Partition)
		}
		ranges = append(ranges, command.PartitionRange{Partition: part.Partition, From: part.From, To: to})
	}
	slices.SortFunc(ranges, func(a, b command.PartitionRange) int { return cmp.Compare(a.Partition, b.Partition) })
	for i := 1; i < len(ranges); i++ {
		if ranges[i].Partition == ranges[i-1].Partition {
			return nil, refuse(http.StatusBadRequest, "partition %d is there twice", ranges[i].Partition)
		}
	}
	return ranges, nil
}

func (s *Server) pins(w http.ResponseWriter, _ *http.Request) {
	pins, err := s.listPins()
	if err != nil {
		s.failPin(w, err)
		return
	}
	s.write(w, http.StatusOK, view.Pins{Pins: pins})
}

// listPins lists the pins by id.
func (s *Server) listPins() ([]view.PinStatus, error) {
	pins, err := s.options.Pins.List()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(pins, func(a, b view.PinStatus) int { return cmp.Compare(a.ID, b.ID) })
	img := s.options.Metadata.Image()
	for i := range pins {
		id, err := kafka.ParseUUID(pins[i].TopicID)
		if err != nil {
			return nil, err
		}
		if topic, found := img.TopicByID(id); found {
			pins[i].Topic = topic.Name
		}
	}
	return append([]view.PinStatus{}, pins...), nil // no null in the document
}

// extendPin gives a pin another lease.
func (s *Server) extendPin(w http.ResponseWriter, r *http.Request) {
	s.changePin(w, r, func(ctx context.Context, id kafka.UUID) (shown view.PinStatus, err error) {
		text := r.URL.Query().Get("lease.ms")
		leaseMs, err := strconv.ParseInt(cmp.Or(text, "0"), 10, 64)
		if err != nil {
			return shown, refuse(http.StatusBadRequest, "lease.ms=%s is no number", text)
		}
		lease, err := leaseOf(leaseMs)
		if err == nil {
			err = s.options.Pins.Extend(ctx, id, lease)
		}
		if err != nil {
			return shown, err
		}
		return s.findPin(id)
	})
}

// endPin ends a pin.
func (s *Server) endPin(w http.ResponseWriter, r *http.Request) {
	s.changePin(w, r, func(ctx context.Context, id kafka.UUID) (view.PinStatus, error) {
		shown, err := s.findPin(id)
		if err == nil {
			err = s.options.Pins.Unpin(ctx, id)
		}
		return shown, err
	})
}

// changePin does something to the pin that a request names.
func (s *Server) changePin(w http.ResponseWriter, r *http.Request,
	change func(ctx context.Context, id kafka.UUID) (view.PinStatus, error),
) {
	ctx, cancel := context.WithTimeout(r.Context(), pinTimeout)
	defer cancel()
	text := r.PathValue("id")
	data, err := hex.DecodeString(text)
	if err != nil || len(data) != len(kafka.UUID{}) {
		s.failPin(w, refuse(http.StatusBadRequest, "%q is not the id of a pin, which has 32 hexadecimal digits", text))
		return
	}
	shown, err := change(ctx, kafka.UUID(data))
	if err != nil {
		s.failPin(w, fmt.Errorf("pin %s: %w", text, err))
		return
	}
	s.write(w, http.StatusOK, shown)
}

func (s *Server) findPin(id kafka.UUID) (view.PinStatus, error) {
	pins, err := s.listPins()
	if err != nil {
		return view.PinStatus{}, err
	}
	i := slices.IndexFunc(pins, func(pin view.PinStatus) bool { return pin.ID == id.Hex() })
	if i < 0 {
		return view.PinStatus{}, command.ErrNoPin
	}
	return pins[i], nil
}

package api

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// Kinds of coordinators, as FindCoordinator numbers them.
const (
	groupCoordinator int8 = iota
	transactionCoordinator
	shareCoordinator
)

// findCoordinator serves FindCoordinator v0–v6 by saying that there are no coordinators: groups and transactions are
// not served. It is served all the same because librdkafka looks at this key to decide whether a broker takes lz4, and
// sends records uncompressed where it is not advertised.
func (h *Handlers) findCoordinator(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrFindCoordinatorRequest())
	if err != nil {
		return malformed(err)
	}
	resp := kmsg.NewPtrFindCoordinatorResponse()
	resp.NodeID, resp.Port = -1, -1
	resp.ErrorCode, resp.ErrorMessage = fail(noCoordinator(request.CoordinatorType, req.Version))
	for _, key := range request.CoordinatorKeys {
		coordinator := kmsg.NewFindCoordinatorResponseCoordinator()
		coordinator.Key, coordinator.NodeID, coordinator.Port = key, -1, -1
		coordinator.ErrorCode, coordinator.ErrorMessage = resp.ErrorCode, resp.ErrorMessage
		resp.Coordinators = append(resp.Coordinators, coordinator)
	}
	return now(req, resp)
}

// noCoordinator is an error that clients do not retry and show to their users. librdkafka, whose consumers look for the
// coordinator of their group even if they assign partitions themselves, would show it to those too: it speaks versions
// below 3, where the error is one that it retries without a word.
func noCoordinator(kind int8, version int16) error {
	switch {
	case kind == groupCoordinator && version < 3:
		return fmt.Errorf("groups are not served yet: assign partitions: %w", kafka.CoordinatorNotAvailable)
	case kind == groupCoordinator || kind == shareCoordinator:
		return fmt.Errorf("groups are not served yet: assign partitions: %w", kafka.UnsupportedVersion)
	case kind == transactionCoordinator:
		return fmt.Errorf("transactions are not served yet: %w", kafka.UnsupportedVersion)
	}
	return fmt.Errorf("there is no coordinator of type %d: %w", kind, kafka.InvalidRequest)
}

package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// apiVersions serves ApiVersions v0–v4. It is the first request on a connection, of a client that does not know us: a
// version above ours is answered in version 0, with the range that we do speak and nothing else.
func (h *Handlers) apiVersions(_ context.Context, req *wire.Request) wire.Reply {
	resp := kmsg.NewPtrApiVersionsResponse()
	if req.UnsupportedVersion {
		own, _ := wire.LookupAPI(wire.KeyApiVersions)
		resp.ErrorCode = int16(kafka.UnsupportedVersion)
		resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: own.Key, MinVersion: own.Min, MaxVersion: own.Max}}
		return wire.Reply{Response: wire.EncodeResponse(0, req.CorrelationID, resp)}
	}
	request, err := decode(req, kmsg.NewPtrApiVersionsRequest())
	if err != nil {
		return malformed(err)
	}
	if req.Version >= 3 {
		if !isSoftwareName(request.ClientSoftwareName) || !isSoftwareName(request.ClientSoftwareVersion) {
			resp.ErrorCode = int16(kafka.InvalidRequest)
			return now(req, resp)
		}
		req.Conn.SetSoftware(wire.Software{Name: request.ClientSoftwareName, Version: request.ClientSoftwareVersion})
	}
	resp.SupportedFeatures, resp.FinalizedFeatures = features(req.Version)
	resp.FinalizedFeaturesEpoch = 0 // they never change while a broker runs
	for _, served := range wire.APIs() {
		resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{
			ApiKey: served.Key, MinVersion: served.Min, MaxVersion: served.Max,
		})
	}
	return now(req, resp)
}

// featureLevels are the feature levels (KIP-584) that v3 and later carry, all of them at their highest.
// metadata.version is the one that goes with the versions of the APIs: 4.2-IV1. Clients take the others as a promise of
// what coordinators do. kraft.version says nothing here.
var featureLevels = [...]struct {
	name     string
	min, max int16
}{
	{"metadata.version", 29, 29},
	{"group.version", 0, 1},       // 1: groups of the consumer protocol (KIP-848)
	{"transaction.version", 0, 2}, // 2: an epoch for each transaction, which partitions join by themselves (KIP-890)
}

// features lists the levels. Those whose lowest is 0 must not be told to be supported below v4 (KAFKA-17011).
func features(version int16) ([]kmsg.ApiVersionsResponseSupportedFeature, []kmsg.ApiVersionsResponseFinalizedFeature) {
	var supported []kmsg.ApiVersionsResponseSupportedFeature
	var finalized []kmsg.ApiVersionsResponseFinalizedFeature
	for _, level := range featureLevels {
		if level.min > 0 || version >= 4 {
			feature := kmsg.NewApiVersionsResponseSupportedFeature()
			feature.Name, feature.MinVersion, feature.MaxVersion = level.name, level.min, level.max
			supported = append(supported, feature)
		}
		feature := kmsg.NewApiVersionsResponseFinalizedFeature()
		feature.Name, feature.MinVersionLevel, feature.MaxVersionLevel = level.name, level.max, level.max
		finalized = append(finalized, feature)
	}
	return supported, finalized
}

// isSoftwareName tells whether a client may call itself or its version so (KIP-511): ASCII letters and digits, and
// between them also '-' and '.'.
func isSoftwareName(name string) bool {
	for i := range len(name) {
		c := name[i]
		alphanumeric := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		inner := i > 0 && i < len(name)-1
		if !alphanumeric && !(inner && (c == '-' || c == '.')) {
			return false
		}
	}
	return name != ""
}

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
	resp.SupportedFeatures, resp.FinalizedFeatures = features()
	resp.FinalizedFeaturesEpoch = 0 // they never change while a broker runs
	for _, served := range wire.APIs() {
		resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{
			ApiKey: served.Key, MinVersion: served.Min, MaxVersion: served.Max,
		})
	}
	return now(req, resp)
}

// metadataVersion is the level of Kafka's feature metadata.version that goes with the versions of the APIs: 4.2-IV1.
const metadataVersion = 29

// features lists the feature levels (KIP-584), which v3 and later carry. Clients take group.version,
// transaction.version and the like as a promise of what coordinators do, so those are absent until there are
// coordinators; kraft.version, whose lowest level is 0, must not be told below v4 (KAFKA-17011) and says nothing here.
func features() ([]kmsg.ApiVersionsResponseSupportedFeature, []kmsg.ApiVersionsResponseFinalizedFeature) {
	supported, finalized := kmsg.NewApiVersionsResponseSupportedFeature(), kmsg.NewApiVersionsResponseFinalizedFeature()
	supported.Name, supported.MinVersion, supported.MaxVersion = "metadata.version", metadataVersion, metadataVersion
	finalized.Name, finalized.MinVersionLevel, finalized.MaxVersionLevel = supported.Name, metadataVersion, metadataVersion
	return []kmsg.ApiVersionsResponseSupportedFeature{supported}, []kmsg.ApiVersionsResponseFinalizedFeature{finalized}
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

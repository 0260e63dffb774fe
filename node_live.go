package firn

import (
	"slices"
	"time"

	"github.com/firnlog/firn/broker/server"
	"github.com/firnlog/firn/compaction"
	"github.com/firnlog/firn/internal/config"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/tiering/upload"
)

// liveSettings are the broker settings that may change while the node runs (KIP-226) and that no topic inherits. The
// metastore owns what was altered; here it is laid over what the node was started with, once for each change, and
// handed to the parts.
type liveSettings struct {
	connections        server.ConnectionLimits
	producerExpiration time.Duration
	uploads            upload.Limits
	remoteReads        int
	remoteFetchMaxWait time.Duration
	listOffsetsTimeout time.Duration
	cleaner            compaction.Config
	assignmentInterval time.Duration
	verifyTransactions bool
}

// liveAt is what holds by an image: of what was altered, this broker's own word goes before that for all.
func (n *Node) liveAt(img *image.Image) liveSettings {
	live := liveSettings{
		connections:        n.config.Server.ConnectionLimits,
		producerExpiration: n.config.Log.ProducerIDExpiration,
		uploads: upload.Limits{Concurrency: n.config.Tier.UploadConcurrency,
			BytesPerSecond: n.config.Tier.UploadBytesPerSecond, RollAfter: n.config.Tier.UploadRollAfter},
		remoteReads:        n.config.Tier.FetchConcurrency,
		remoteFetchMaxWait: n.config.Tier.FetchMaxWait,
		listOffsetsTimeout: n.config.Tier.ListOffsetsTimeout,
		cleaner:            n.config.Cleaner,
		assignmentInterval: n.config.GroupIntervals.Default.Assignment,
		verifyTransactions: n.config.VerifyTransactions,
	}
	layers := n.layers(img)
	for _, layer := range []map[string]string{layers.DynamicDefault, layers.Dynamic} {
		for name, value := range layer {
			if err := live.take(name, value); err != nil {
				// It was checked before it was committed, by a table that allowed more.
				n.logger.Error("a setting does not fit any more and is passed over", "setting", name, "err", err)
			}
		}
	}
	return live
}

// take takes over one setting; those that topics inherit, and those that do not act, are none of its business.
func (s *liveSettings) take(name, value string) error {
	switch name {
	case "max.connections":
		return takeInt(&s.connections.MaxConnections, value)
	case "max.connections.per.ip":
		return takeInt(&s.connections.MaxConnectionsPerIP, value)
	case "max.connection.creation.rate":
		return takeInt(&s.connections.MaxConnectionCreationRate, value)
	case "max.connections.per.ip.overrides":
		overrides, err := config.ParseConnectionOverrides(value)
		if err == nil {
			s.connections.MaxConnectionsPerIPOverrides = overrides
		}
		return err
	case "producer.id.expiration.ms":
		return takeMilliseconds(&s.producerExpiration, value)
	case "remote.log.manager.copier.thread.pool.size":
		return takeInt(&s.uploads.Concurrency, value)
	case "remote.log.manager.copy.max.bytes.per.second":
		return takeLong(value, func(number int64) { s.uploads.BytesPerSecond = uploadRate(number) })
	case "firn.tier.roll.ms":
		return takeLong(value, func(number int64) { s.uploads.RollAfter = uploadRollAfter(number) })
	case "remote.log.reader.threads":
		return takeInt(&s.remoteReads, value)
	case "remote.fetch.max.wait.ms":
		return takeMilliseconds(&s.remoteFetchMaxWait, value)
	case "remote.list.offsets.request.timeout.ms":
		return takeMilliseconds(&s.listOffsetsTimeout, value)
	case "group.consumer.assignment.interval.ms":
		return takeMilliseconds(&s.assignmentInterval, value)
	case "transaction.partition.verification.enable":
		verify, err := config.ParseBool(value)
		if err == nil {
			s.verifyTransactions = verify
		}
		return err
	}
	return s.takeCleaner(name, value)
}

func (s *liveSettings) takeCleaner(name, value string) error {
	switch name {
	case "log.cleaner.threads":
		return takeInt(&s.cleaner.Threads, value)
	case "log.cleaner.backoff.ms":
		return takeMilliseconds(&s.cleaner.Backoff, value)
	case "log.cleaner.dedupe.buffer.size":
		return takeLong(value, func(number int64) { s.cleaner.DedupeBufferBytes = number })
	case "log.cleaner.io.buffer.load.factor":
		return takeDouble(&s.cleaner.LoadFactor, value)
	case "log.cleaner.io.max.bytes.per.second":
		return takeDouble(&s.cleaner.MaxBytesPerSecond, value)
	}
	return nil
}

func takeInt(to *int, value string) error {
	number, err := config.ParseInt(value)
	if err == nil {
		*to = int(number)
	}
	return err
}

func takeLong(value string, take func(int64)) error {
	number, err := config.ParseLong(value)
	if err == nil {
		take(number)
	}
	return err
}

func takeDouble(to *float64, value string) error {
	number, err := config.ParseDouble(value)
	if err == nil {
		*to = number
	}
	return err
}

func takeMilliseconds(to *time.Duration, value string) error {
	number, err := config.ParseLong(value)
	if err == nil {
		*to = milliseconds(number)
	}
	return err
}

// applySettings hands the settings of an image to the parts, if the broker's have changed.
func (n *Node) applySettings(img *image.Image, delta image.Delta) {
	ofBroker := func(changed image.ConfigResource) bool { return !changed.Topic }
	if !delta.Reset && !slices.ContainsFunc(delta.ConfigsChanged, ofBroker) {
		return
	}
	live := n.liveAt(img)
	n.live.Store(&live)
	n.logs.SetProducerExpiration(live.producerExpiration)
	n.tier.SetUploadLimits(live.uploads)
	n.tier.SetConcurrency(live.remoteReads)
	n.server.SetConnectionLimits(live.connections)
	n.cleaner.SetConfig(live.cleaner)
	n.noteIdle(img)
}

// noteIdle says which of the settings that were altered at run time do nothing, as noteEffects does at the start.
func (n *Node) noteIdle(img *image.Image) {
	layers := n.layers(img)
	var idle []string
	for _, layer := range []map[string]string{layers.DynamicDefault, layers.Dynamic} {
		for name := range layer {
			if setting, _ := config.LookupBroker(name); setting.Effect != config.Acts && !slices.Contains(idle, name) {
				idle = append(idle, name)
			}
		}
	}
	if len(idle) > 0 {
		slices.Sort(idle)
		n.logger.Info("settings were altered at run time that do not act here", "settings", idle)
	}
}

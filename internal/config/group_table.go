package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// groupRow is a setting of a group as the table writes it: name, type, Kafka's default (null for none), the broker
// setting that holds where the group has none of its own ("" for none), the broker settings that bound it, what is
// allowed, what it does here and a sentence about it.
type groupRow struct {
	name     string
	kind     Type
	standard string
	synonym  string
	min, max string
	check    func(string) error
	effect   Effect
	doc      string
}

// groupRows are the settings of GroupConfig in Kafka 4.4.
func groupRows() []groupRow {
	const (
		noShares  = "Accepted as Kafka does; it has no effect, as share groups are not served."
		noStreams = "Accepted as Kafka does; it has no effect, as groups of the streams protocol are not served."
		here      = "Assignors run where the group is kept; there is nothing to be offloaded."
	)
	of := func(kind, name string) string { return "group." + kind + "." + name }
	bounded := func(kind, name, standard string, least int64, effect Effect, doc string) groupRow {
		return groupRow{kind + "." + name, Int, standard, of(kind, name), of(kind, "min."+name), of(kind, "max."+name),
			atLeast(least), effect, doc}
	}
	return []groupRow{
		bounded("consumer", "session.timeout.ms", "45000", 1, Acts,
			"Milliseconds of silence after which a member of the consumer protocol is removed (KIP-848)."),
		bounded("consumer", "heartbeat.interval.ms", "5000", 1, Acts,
			"Milliseconds between two heartbeats of a member of the consumer protocol (KIP-848)."),
		bounded("consumer", "assignment.interval.ms", "1000", 0, Acts,
			"Milliseconds at least between two assignments of a group of the consumer protocol (KIP-848)."),
		{"consumer.assignor.offload.enable", Boolean, "true", of("consumer", "assignor.offload.enable"), "", "", nil,
			NoEffect, here},

		bounded("share", "session.timeout.ms", "45000", 1, NoEffect, noShares),
		bounded("share", "heartbeat.interval.ms", "5000", 1, NoEffect, noShares),
		bounded("share", "assignment.interval.ms", "1000", 0, NoEffect, noShares),
		bounded("share", "record.lock.duration.ms", "30000", 1000, NoEffect, noShares),
		bounded("share", "delivery.count.limit", "5", 2, NoEffect, noShares),
		bounded("share", "partition.max.record.locks", "2000", 100, NoEffect, noShares),
		{"share.auto.offset.reset", String, "latest", "", "", "", shareOffsetReset, NoEffect, noShares},
		{"share.isolation.level", String, "read_uncommitted", "", "", "", oneOf("read_committed", "read_uncommitted"),
			NoEffect, noShares},
		{"share.renew.acknowledge.enable", Boolean, "true", "", "", "", nil, NoEffect, noShares},
		{"share.assignor.offload.enable", Boolean, "true", of("share", "assignor.offload.enable"), "", "", nil, NoEffect,
			noShares},
		{"errors.deadletterqueue.topic.name", String, "", "", "", "", deadLetterTopic, NoEffect, noShares},
		{"errors.deadletterqueue.copy.record.enable", Boolean, "false", "", "", "", nil, NoEffect, noShares},

		bounded("streams", "session.timeout.ms", "45000", 1, NoEffect, noStreams),
		bounded("streams", "heartbeat.interval.ms", "5000", 1, NoEffect, noStreams),
		bounded("streams", "assignment.interval.ms", "1000", 0, NoEffect, noStreams),
		{"streams.num.standby.replicas", Int, "0", of("streams", "num.standby.replicas"), "",
			of("streams", "max.standby.replicas"), atLeast(0), NoEffect, noStreams},
		{"streams.num.warmup.replicas", Int, "2", of("streams", "num.warmup.replicas"), "",
			of("streams", "max.warmup.replicas"), atLeast(0), NoEffect, noStreams},
		{"streams.task.offset.interval.ms", Int, "60000", of("streams", "task.offset.interval.ms"),
			of("streams", "min.task.offset.interval.ms"), "", atLeast(1), NoEffect, noStreams},
		{"streams.initial.rebalance.delay.ms", Int, "3000", of("streams", "initial.rebalance.delay.ms"), "", "",
			atLeast(0), NoEffect, noStreams},
		{"streams.acceptable.recovery.lag", Long, "10000", of("streams", "acceptable.recovery.lag"), "", "", atLeast(0),
			NoEffect, noStreams},
		{"streams.rack.aware.assignment.tags", List, "", of("streams", "rack.aware.assignment.tags"), "", "", noRepetition,
			NoEffect, noStreams},
		{"streams.assignor.name", String, null, of("streams", "assignors"), "", "", nil, NoEffect, noStreams},
		{"streams.assignor.offload.enable", Boolean, "true", of("streams", "assignor.offload.enable"), "", "", nil, NoEffect,
			noStreams},
	}
}

func (r groupRow) setting() Setting {
	s := row{r.name, r.kind, r.standard, ClusterWide, r.check, r.effect, r.doc}.setting()
	if r.synonym != "" {
		s.Synonyms = []string{r.synonym}
	}
	// Those are hidden on a broker, too, all but the assignors, which say more than the name of one.
	broker, _ := brokerIndex.lookup(r.synonym)
	s.Internal = broker.Internal
	return s
}

// shareOffsetReset allows what a share group may begin with.
func shareOffsetReset(value string) error {
	word, duration, timed := strings.Cut(value, ":")
	switch {
	case !timed && (word == "earliest" || word == "latest"):
		return nil
	case timed && word == "by_duration" && isoDuration.MatchString(duration) &&
		strings.ContainsAny(duration, "0123456789"):
		return nil
	}
	return errors.New("must be earliest, latest, or by_duration: with a duration of ISO 8601, such as by_duration:PT1H")
}

// isoDuration is a duration as java.time.Duration reads it, from 0 on.
var isoDuration = regexp.MustCompile(`(?i)^\+?p(\+?\d+d)?(t(\+?\d+h)?(\+?\d+m)?(\+?\d+([.,]\d{0,9})?s)?)?$`)

// noRepetition allows lists without an entry that is there twice.
func noRepetition(value string) error {
	if len(ParseList(value)) < strings.Count(value, ",")+1 && value != "" {
		return errors.New("must have no entry twice")
	}
	return nil
}

// deadLetterTopic allows the names that are not those of internal topics.
func deadLetterTopic(value string) error {
	if strings.HasPrefix(value, "__") {
		return fmt.Errorf("must not begin with __")
	}
	return nil
}

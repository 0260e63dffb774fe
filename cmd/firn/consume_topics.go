package main

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// discoveryInterval is how often a reading that follows looks for new topics and partitions: no broker tells.
const discoveryInterval = 2 * time.Second

// topicChoice is what the arguments of consume mean: names, or patterns that topics may match at any time.
type topicChoice struct {
	names    []string
	patterns []*regexp.Regexp
}

func newTopicChoice(args []string, asPatterns bool) (topicChoice, error) {
	args = slices.Compact(slices.Sorted(slices.Values(args)))
	if !asPatterns {
		return topicChoice{names: args}, nil
	}
	var choice topicChoice
	for _, arg := range args {
		pattern, err := regexp.Compile(arg)
		if err != nil {
			return choice, err
		}
		choice.patterns = append(choice.patterns, pattern)
	}
	return choice, nil
}

// find looks up the topics. A name must exist; a pattern must match something. The cluster's own topics are read only
// by name.
func (c topicChoice) find(client *session) (kadm.TopicDetails, error) {
	if c.patterns == nil {
		return findTopics(client.ctx, client.admin, c.names)
	}
	topics, err := client.admin.ListTopics(client.ctx)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	for name, detail := range topics {
		if detail.Err != nil || !slices.ContainsFunc(c.patterns, func(p *regexp.Regexp) bool { return p.MatchString(name) }) {
			delete(topics, name)
		}
	}
	if len(topics) == 0 {
		return nil, fmt.Errorf("no topic matches %s: `firn topic list` shows the topics there are", c)
	}
	return topics, nil
}

// String prints the names or patterns.
func (c topicChoice) String() string { return strings.Join(c.texts(), " or ") }

// texts are the names or patterns.
func (c topicChoice) texts() []string {
	if c.patterns == nil {
		return c.names
	}
	texts := make([]string, len(c.patterns))
	for i, pattern := range c.patterns {
		texts[i] = pattern.String()
	}
	return texts
}

// discovery adds to a reading that follows what has come into being since it began. It reads that from the start.
type discovery struct {
	choice topicChoice
	known  map[string]map[int32]bool
	next   time.Time
}

func newDiscovery(choice topicChoice, spans topicSpans) *discovery {
	d := &discovery{choice: choice, known: make(map[string]map[int32]bool), next: time.Now().Add(discoveryInterval)}
	for topic, partitions := range spans {
		for partition := range partitions {
			d.note(topic, partition)
		}
	}
	return d
}

// note tells whether the partition is new.
func (d *discovery) note(topic string, partition int32) bool {
	if d.known[topic] == nil {
		d.known[topic] = make(map[int32]bool)
	}
	isNew := !d.known[topic][partition]
	d.known[topic][partition] = true
	return isNew
}

// extend looks for new partitions, if it is time, and has them read. A cluster that does not answer is asked again
// later: following outlives that.
func (d *discovery) extend(client *session, r *reading) {
	if time.Now().Before(d.next) {
		return
	}
	d.next = time.Now().Add(discoveryInterval)
	topics, err := d.choice.find(client)
	if err != nil {
		return
	}
	found := make(map[string]map[int32]kgo.Offset)
	for topic, detail := range topics {
		for partition := range detail.Partitions {
			if !d.note(topic, partition) {
				continue
			}
			if found[topic] == nil {
				found[topic] = make(map[int32]kgo.Offset)
			}
			found[topic][partition] = kgo.NewOffset().AtStart()
			r.add(topic, partition, span{end: math.MaxInt64})
		}
	}
	if len(found) > 0 {
		client.AddConsumePartitions(found)
	}
}

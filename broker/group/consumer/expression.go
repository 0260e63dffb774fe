package consumer

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/firnlog/firn/internal/kafka"
)

// resolveInterval is at least between two times that regular expressions are matched with all topics, since the
// metadata changes all the time, and rarely by a topic. Kafka has the same.
const resolveInterval = 10 * time.Second

// expression is a regular expression and the topics that it matches.
type expression struct {
	pattern *regexp.Regexp
	topics  []string // ascending
}

// compile reads a regular expression in RE2's syntax, which is that of Go. It is for whole names, as in Kafka.
func compile(regex string) (*regexp.Regexp, error) {
	// First alone: "a)(b" is not to become valid by what is put around it.
	if _, err := regexp.Compile(regex); err != nil {
		return nil, fmt.Errorf("SubscribedTopicRegex %q is not an RE2 expression (%w): %w", regex, err,
			kafka.InvalidRegularExpression)
	}
	return regexp.MustCompile(`\A(?:` + regex + `)\z`), nil
}

// matches tells whether a topic was among those that the expression matched.
func (e *expression) matches(topic string) bool {
	_, found := slices.BinarySearch(e.topics, topic)
	return found
}

// match lists the topics whose names match.
func match(pattern *regexp.Regexp, topics Topics) []string {
	var matched []string
	for name := range topics.Names() {
		if pattern.MatchString(name) {
			matched = append(matched, name)
		}
	}
	slices.Sort(matched)
	return matched
}

// resolve makes sure that what a member subscribes to is resolved. What others subscribe to already is not resolved
// again: all of a group's expressions are refreshed together, so that a new topic makes for one rebalance.
func (c *change) resolve(regex string, topics Topics) error {
	if _, known := c.expressions[regex]; known || regex == "" {
		return nil
	}
	pattern, err := compile(regex)
	if err != nil {
		return err
	}
	c.setExpression(regex, &expression{pattern: pattern, topics: match(pattern, topics)})
	return nil
}

// refresh resolves all expressions again if topics may have come or gone, and tells whether any matches others now.
func (c *change) refresh(topics Topics) bool {
	if len(c.expressions) == 0 || topics == c.resolved || c.now.Before(c.resolvedAt.Add(resolveInterval)) {
		return false
	}
	changed := false
	for _, regex := range sortedKeys(c.expressions) {
		e := c.expressions[regex]
		if matched := match(e.pattern, topics); !slices.Equal(matched, e.topics) {
			c.setExpression(regex, &expression{pattern: e.pattern, topics: matched})
			changed = true
		}
	}
	c.then(func() { c.Group.resolved, c.Group.resolvedAt = topics, c.now })
	return changed
}

// topicNames are the topics that the group reads, ascending.
func (g *Group) topicNames() []string {
	names := maps.Clone(g.names)
	for regex := range g.regexs {
		if e, ok := g.expressions[regex]; ok {
			for _, name := range e.topics {
				names[name]++
			}
		}
	}
	return sortedKeys(names)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

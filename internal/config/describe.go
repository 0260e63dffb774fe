package config

import (
	"maps"
	"slices"
	"strings"
)

// Source tells where a value comes from, with the numbers of the DescribeConfigs response.
type Source int8

// The sources of Kafka's settings; those of a topic or a group go before the broker's.
const (
	DynamicTopic         Source = 1
	DynamicBroker        Source = 2
	DynamicDefaultBroker Source = 3
	StaticBroker         Source = 4
	BuiltIn              Source = 5
	DynamicGroup         Source = 8
)

// Synonym is one value that a setting would have if the ones before it were not there. A sensitive one is nil.
type Synonym struct {
	Name   string
	Value  *string
	Source Source
}

// Entry is one setting as DescribeConfigs answers it. Value is nil where there is none or where it is sensitive.
type Entry struct {
	Setting
	Value    *string
	Source   Source
	Synonyms []Synonym
}

// BrokerLayers is what is set for one broker, the strongest first.
type BrokerLayers struct {
	// Dynamic is what was altered at run time for this broker.
	Dynamic map[string]string
	// DynamicDefault is what was altered at run time for all brokers.
	DynamicDefault map[string]string
	// Static is what the node was started with: a value and whether somebody set it. Where nobody did, a value that is
	// not empty replaces the default of the table, for defaults that depend on other settings. Nil is a node on which
	// nothing is set.
	Static BrokerLookup
}

// Lookup answers a setting's value and whether somebody has set it. It is the BrokerLookup of ResolveTopic.
func (l BrokerLayers) Lookup(name string) (value string, explicit bool) {
	for _, layer := range []map[string]string{l.Dynamic, l.DynamicDefault} {
		if value, ok := layer[name]; ok {
			return value, true
		}
	}
	if value, ok := l.static(name); ok {
		return value, true
	}
	value, _ = l.builtIn(name)
	return value, false
}

func (l BrokerLayers) static(name string) (value string, ok bool) {
	if l.Static == nil {
		return "", false
	}
	value, explicit := l.Static(name)
	return value, explicit
}

func (l BrokerLayers) builtIn(name string) (value string, ok bool) {
	if l.Static != nil {
		if value, explicit := l.Static(name); !explicit && value != "" {
			return value, true
		}
	}
	setting, ok := brokerIndex.lookup(name)
	return setting.Default, ok && setting.HasDefault
}

// DescribeTopic answers every setting of a topic, sorted by name.
func DescribeTopic(overrides map[string]string, layers BrokerLayers) []Entry {
	var entries []Entry
	for _, setting := range topicIndex.rows {
		override, overridden := overrides[setting.Name]
		if setting.Internal && !overridden {
			continue
		}
		value := topicValue(setting.Name, overrides, layers.Lookup)
		entry := Entry{Setting: setting, Value: setting.shown(value), Source: BuiltIn}
		if overridden {
			entry.Synonyms = append(entry.Synonyms, Synonym{setting.Name, setting.shown(override), DynamicTopic})
		}
		if len(setting.Synonyms) > 0 {
			entry.Synonyms = append(entry.Synonyms, layers.synonyms(setting.Synonyms[0], setting.Synonyms)...)
		}
		if len(entry.Synonyms) > 0 {
			entry.Source = entry.Synonyms[0].Source
		}
		entries = append(entries, entry)
	}
	return entries
}

// DescribeBroker answers every setting of a broker, sorted by name; Kafka's internal ones only where they are set.
func DescribeBroker(layers BrokerLayers) []Entry {
	var entries []Entry
	for _, setting := range brokerIndex.rows {
		value, explicit := layers.Lookup(setting.Name)
		if setting.Internal && !explicit {
			continue
		}
		entry := Entry{Setting: setting, Source: BuiltIn, Synonyms: layers.synonyms(setting.Name, setting.Synonyms)}
		if _, hasDefault := layers.builtIn(setting.Name); explicit || hasDefault {
			entry.Value = setting.shown(value)
		}
		if len(entry.Synonyms) > 0 {
			entry.Source = entry.Synonyms[0].Source
		}
		entries = append(entries, entry)
	}
	return entries
}

// DescribeBrokerDefaults answers what was altered at run time for all brokers, sorted by name.
func DescribeBrokerDefaults(dynamicDefault map[string]string) []Entry {
	var entries []Entry
	for _, name := range slices.Sorted(maps.Keys(dynamicDefault)) {
		setting, _ := LookupBroker(name)
		value := setting.shown(dynamicDefault[name])
		entries = append(entries, Entry{
			Setting: setting, Value: value, Source: DynamicDefaultBroker,
			Synonyms: []Synonym{{name, value, DynamicDefaultBroker}},
		})
	}
	return entries
}

// synonyms lists, layer by layer, the values of the named settings. As in Kafka everything before the first one called
// name is left out, so a setting that only a weaker synonym sets shows no synonyms and the source of a default.
func (l BrokerLayers) synonyms(name string, names []string) []Synonym {
	var found []Synonym
	add := func(source Source, value func(name string) (string, bool)) {
		for _, synonym := range names {
			text, ok := value(synonym)
			if !ok || len(found) == 0 && synonym != name {
				continue
			}
			setting, _ := LookupBroker(synonym)
			found = append(found, Synonym{synonym, setting.shown(text), source})
		}
	}
	from := func(layer map[string]string) func(string) (string, bool) {
		return func(name string) (string, bool) {
			value, ok := layer[name]
			return value, ok
		}
	}
	add(DynamicBroker, from(l.Dynamic))
	add(DynamicDefaultBroker, from(l.DynamicDefault))
	add(StaticBroker, l.static)
	add(BuiltIn, l.builtIn)
	return found
}

// shown is a value as Kafka prints it: nil where it is sensitive, without stray blanks elsewhere.
func (s Setting) shown(value string) *string {
	if s.Sensitive {
		return nil
	}
	value = Canonical(s.Type, value)
	return &value
}

// Canonical is a valid value in the one form in which Kafka prints it.
func Canonical(kind Type, value string) string {
	switch kind {
	case List:
		return strings.Join(ParseList(value), ",")
	case Boolean:
		return strings.ToLower(strings.TrimSpace(value))
	}
	return strings.TrimSpace(value)
}

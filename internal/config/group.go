package config

import (
	"maps"
	"slices"
)

// groupIndex is made once and never changed.
var groupIndex = newIndex(groupSettings())

func groupSettings() []Setting {
	var settings []Setting
	for _, row := range groupRows() {
		settings = append(settings, row.setting())
	}
	return settings
}

// Group lists every setting that a group may have of its own, sorted by name.
func Group() []Setting { return slices.Clone(groupIndex.rows) }

// LookupGroup finds a setting of groups by name.
func LookupGroup(name string) (Setting, bool) { return groupIndex.lookup(name) }

func groupRowOf(name string) groupRow {
	rows := groupRows()
	return rows[slices.IndexFunc(rows, func(r groupRow) bool { return r.name == name })]
}

// brokerValue is a broker setting's value, or its default on a broker that says nothing.
func brokerValue(name string, broker BrokerLookup) string {
	value, explicit := broker(name)
	if !explicit && value == "" {
		setting, _ := brokerIndex.lookup(name)
		return setting.Default
	}
	return value
}

// CheckGroup tells whether a group may have these settings. Its error names the setting, the value and what is allowed,
// and carries INVALID_CONFIG.
func CheckGroup(overrides map[string]string, broker BrokerLookup) error {
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		setting, ok := groupIndex.lookup(name)
		if !ok {
			return invalid("unknown setting of groups %s%s", name, suggestion(nearest(name, groupIndex)))
		}
		if err := setting.Validate(overrides[name]); err != nil {
			return invalid("%w", err)
		}
		if err := checkGroupBounds(groupRowOf(name), overrides[name], broker); err != nil {
			return err
		}
	}
	for _, kind := range []string{"consumer", "share", "streams"} {
		session, heartbeat := groupRowOf(kind+".session.timeout.ms"), groupRowOf(kind+".heartbeat.interval.ms")
		_, ownSession := overrides[session.name]
		_, ownHeartbeat := overrides[heartbeat.name]
		if !ownSession && !ownHeartbeat { // of the broker's own nobody is to blame the group
			continue
		}
		timeout, interval := groupNumber(session, overrides, broker), groupNumber(heartbeat, overrides, broker)
		if timeout <= interval {
			return invalid("%s (%d) must be greater than %s (%d)", session.name, timeout, heartbeat.name, interval)
		}
	}
	return nil
}

func groupNumber(row groupRow, overrides map[string]string, broker BrokerLookup) int32 {
	value, own := overrides[row.name]
	if !own {
		value = brokerValue(row.synonym, broker)
	}
	number, _ := ParseInt(value)
	return number
}

// checkGroupBounds: what groups may set is bounded by the broker.
func checkGroupBounds(row groupRow, value string, broker BrokerLookup) error {
	if row.name == "streams.assignor.name" {
		if known := ParseList(brokerValue(row.synonym, broker)); !slices.Contains(known, value) {
			return invalid("invalid value %q for %s: must be one of %s, which are %q", value, row.name, row.synonym, known)
		}
		return nil
	}
	number, _ := ParseLong(value)
	if low, err := ParseLong(brokerValue(row.min, broker)); err == nil && number < low {
		return invalid("invalid value %q for %s: must be at least %s, which is %d", value, row.name, row.min, low)
	}
	if high, err := ParseLong(brokerValue(row.max, broker)); err == nil && number > high {
		return invalid("invalid value %q for %s: must be at most %s, which is %d", value, row.name, row.max, high)
	}
	return nil
}

// CheckBrokerGroups tells whether the broker's own settings of groups lie within its bounds for those of single groups.
// Its error carries INVALID_REQUEST.
func CheckBrokerGroups(broker BrokerLookup) error {
	for _, kind := range []string{"consumer", "share", "streams"} {
		for _, name := range []string{".heartbeat.interval.ms", ".session.timeout.ms", ".assignment.interval.ms"} {
			if err := checkWithinBounds(groupRowOf(kind+name), broker); err != nil {
				return err
			}
		}
		session, heartbeat := "group."+kind+".session.timeout.ms", "group."+kind+".heartbeat.interval.ms"
		timeout, _ := ParseInt(brokerValue(session, broker))
		interval, _ := ParseInt(brokerValue(heartbeat, broker))
		if interval >= timeout {
			return refused("%s (%d) must be less than %s (%d)", heartbeat, interval, session, timeout)
		}
	}
	return nil
}

func checkWithinBounds(row groupRow, broker BrokerLookup) error {
	number := func(name string) int32 {
		n, _ := ParseInt(brokerValue(name, broker))
		return n
	}
	value, low, high := number(row.synonym), number(row.min), number(row.max)
	switch {
	case high < low:
		return refused("%s (%d) must be at least %s (%d)", row.max, high, row.min, low)
	case value < low:
		return refused("%s (%d) must be at least %s (%d)", row.synonym, value, row.min, low)
	case value > high:
		return refused("%s (%d) must be at most %s (%d)", row.synonym, value, row.max, high)
	}
	return nil
}

// DescribeGroup answers the settings of a group, sorted by name; Kafka's internal ones only where they are set.
func DescribeGroup(overrides map[string]string, layers BrokerLayers) []Entry {
	var entries []Entry
	for _, setting := range groupIndex.rows {
		override, overridden := overrides[setting.Name]
		entry := Entry{Setting: setting, Source: BuiltIn}
		if len(setting.Synonyms) > 0 {
			synonym := setting.Synonyms[0]
			value, explicit := layers.Lookup(synonym)
			if setting.Internal && !explicit && !overridden {
				continue
			}
			if synonym == "group.streams.assignors" { // of the list a group uses one
				value = append(ParseList(value), "")[0]
			}
			entry.Value, entry.Synonyms = setting.shown(value), layers.synonyms(synonym, setting.Synonyms)
		} else {
			entry.Value = setting.shown(setting.Default)
			entry.Synonyms = []Synonym{{setting.Name, entry.Value, BuiltIn}}
		}
		if overridden {
			entry.Value = setting.shown(override)
			entry.Synonyms = append([]Synonym{{setting.Name, setting.shown(override), DynamicGroup}}, entry.Synonyms...)
		}
		if len(entry.Synonyms) > 0 {
			entry.Source = entry.Synonyms[0].Source
		}
		entries = append(entries, entry)
	}
	return entries
}

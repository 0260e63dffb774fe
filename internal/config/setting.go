package config

import (
	"slices"
	"strings"
)

// Type is the type of a setting's value, with the numbers of the DescribeConfigs response.
type Type int8

// The types of Kafka's settings.
const (
	Boolean  Type = 1
	String   Type = 2
	Int      Type = 3
	Short    Type = 4
	Long     Type = 5
	Double   Type = 6
	List     Type = 7
	Class    Type = 8
	Password Type = 9
)

// String prints Kafka's name of the type.
func (t Type) String() string {
	names := [...]string{"UNKNOWN", "BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD"}
	if t < 0 || int(t) >= len(names) {
		return names[0]
	}
	return names[t]
}

// Effect tells what firn does with a setting.
type Effect int8

const (
	// Acts: the value changes what firn does.
	Acts Effect = iota
	// Later: the value will act once the part it steers exists; until then it is accepted and listed at start.
	Later
	// NoEffect: nothing in firn corresponds to it; it is accepted and listed at start.
	NoEffect
	// Refused: ignoring it would silently open the broker, so any value but the default refuses the start.
	Refused
	// Removed: Kafka itself dropped it before 4.4; it is accepted with a message that says what replaced it.
	Removed
)

// String prints the effect in the words that `firn config` shows.
func (e Effect) String() string {
	switch e {
	case Acts:
		return "acts"
	case Later:
		return "not acting yet"
	case NoEffect:
		return "no effect"
	case Refused:
		return "refused"
	case Removed:
		return "removed"
	}
	return "unknown"
}

// Update tells when a broker setting may change.
type Update int8

const (
	// ReadOnly settings are read at start only.
	ReadOnly Update = iota
	// PerBroker settings may be altered at run time, for each broker alone.
	PerBroker
	// ClusterWide settings may be altered at run time, for one broker or for all.
	ClusterWide
)

// Setting is one row of a table.
type Setting struct {
	// Name is Kafka's key, or firn.* for what Kafka has no name for.
	Name string
	// Type is the type of the value.
	Type Type
	// Default is firn's default in the form a file would hold it; without meaning unless HasDefault.
	Default string
	// HasDefault is false where an unset setting has no value at all (null).
	HasDefault bool
	// KafkaDefault is Kafka's default, which is nil for null and for settings that Kafka does not have.
	KafkaDefault *string
	// Reason says why Default differs from Kafka's; empty where it does not.
	Reason string
	// Doc is one sentence for DescribeConfigs and `firn config`.
	Doc string
	// Effect tells what firn does with the value.
	Effect Effect
	// Check refuses values that have the right type and are still not allowed; nil allows all.
	Check func(value string) error
	// Synonyms names the broker settings that give this one its value, the strongest first. A topic setting inherits
	// from them; a broker setting has itself in it.
	Synonyms []string
	// Update tells when Kafka lets the value change.
	Update Update
	// ReadOnly is what DescribeConfigs answers: firn reads the value at start only.
	ReadOnly bool
	// Sensitive values are never shown.
	Sensitive bool
	// Internal settings are for tests, or a topic's that Kafka does not have; DescribeConfigs shows them only if they are
	// set.
	Internal bool
}

// Own tells whether the setting is firn's own.
func (s Setting) Own() bool { return strings.HasPrefix(s.Name, "firn.") }

// index is a table with a way to find a row by name.
type index struct {
	rows   []Setting
	byName map[string]int
}

func newIndex(rows []Setting) *index {
	slices.SortFunc(rows, func(a, b Setting) int { return strings.Compare(a.Name, b.Name) })
	byName := make(map[string]int, len(rows))
	for i, row := range rows {
		byName[row.Name] = i
	}
	return &index{rows: rows, byName: byName}
}

func (x *index) lookup(name string) (Setting, bool) {
	i, ok := x.byName[name]
	if !ok {
		return Setting{}, false
	}
	return x.rows[i], true
}

// row is a setting as the tables write it: name, type, Kafka's default (null for none), when it may change, what is
// allowed, what it does here and a sentence about it.
type row struct {
	name     string
	kind     Type
	standard string
	update   Update
	check    func(string) error
	effect   Effect
	doc      string
}

// null is the default of a setting that has no value unless somebody sets it.
const null = "<null>"

// required is the default of a setting that Kafka wants to be set and firn does not.
const required = "<required>"

const (
	noEffectDoc = "Accepted so that Kafka's files work unchanged; it has no effect here."
	refusedDoc  = "Security settings are not supported yet; setting one refuses the start, since ignoring it would " +
		"open the broker."
)

func (r row) setting() Setting {
	s := Setting{
		Name: r.name, Type: r.kind, Doc: r.doc, Effect: r.effect, Check: r.check, Update: r.update,
		ReadOnly: r.update == ReadOnly, Sensitive: r.kind == Password,
	}
	if r.standard != null && r.standard != required {
		s.Default, s.HasDefault = r.standard, true
		s.KafkaDefault = &r.standard
	}
	if s.Doc == "" && r.effect == NoEffect {
		s.Doc = noEffectDoc
	}
	if s.Doc == "" && r.effect == Refused {
		s.Doc = refusedDoc
	}
	return s
}

package firn

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/firnlog/firn/internal/config"
)

// Settings is every broker setting of a node with where it was set. It does not change once it is made.
type Settings struct {
	values   map[string]settingValue // what somebody has set
	defaults map[string]string       // defaults that depend on other settings
	notices  []Notice
}

type settingValue struct{ text, origin string }

// Notice is something to say at start that does not keep the node from running.
type Notice struct {
	// Warning is true where the operator probably wants to change something.
	Warning bool
	// Text is one line.
	Text string
}

// OriginDefault is the origin of a value that nobody has set.
const OriginDefault = "default"

// SettingView is a setting with its value, for people.
type SettingView struct {
	config.Setting
	// Value is nil where there is none; a sensitive one is hidden.
	Value *string
	// Origin says where the value was set: "--set", "FIRN_LOG_DIRS", "server.properties line 12", "default".
	Origin string
}

// Lookup answers a setting's value and whether somebody has set it.
func (s *Settings) Lookup(name string) (value string, explicit bool) {
	if value, ok := s.values[name]; ok {
		return value.text, true
	}
	if value, ok := s.defaults[name]; ok {
		return value, false
	}
	setting, _ := config.LookupBroker(name)
	return setting.Default, false
}

// Notices is what to say at start, in the order in which it was found.
func (s *Settings) Notices() []Notice { return slices.Clone(s.notices) }

// All is every setting sorted by name, with what was set beyond the table.
func (s *Settings) All() []SettingView {
	settings := config.Broker()
	for name := range s.values {
		if setting, _ := config.LookupBroker(name); !slices.ContainsFunc(settings, named(name)) {
			settings = append(settings, setting)
		}
	}
	slices.SortFunc(settings, func(a, b config.Setting) int { return strings.Compare(a.Name, b.Name) })
	views := make([]SettingView, 0, len(settings))
	for _, setting := range settings {
		view := SettingView{Setting: setting, Origin: OriginDefault}
		text, explicit := s.Lookup(setting.Name)
		if explicit {
			view.Origin = s.values[setting.Name].origin
		}
		if explicit || setting.HasDefault || text != "" {
			if setting.Sensitive {
				text = "[hidden]"
			}
			view.Value = &text
		}
		views = append(views, view)
	}
	return views
}

func named(name string) func(config.Setting) bool {
	return func(s config.Setting) bool { return s.Name == name }
}

// accept takes a word on a setting; a later one overrules it. Only the name is judged, since a value that is overruled
// does no harm.
func (s *Settings) accept(a assignment) error {
	setting, known := config.LookupBroker(a.name)
	switch {
	case !known && a.lenient:
		s.warn("%s is ignored: %s is not a setting%s", a.origin, a.name, didYouMean(a.name))
		return nil
	case !known:
		return fmt.Errorf("%s: %s is not a setting%s", a.origin, a.name, didYouMean(a.name))
	case setting.Effect == config.Removed:
		s.warn("%s (%s) is ignored, Kafka 4.4 no longer has it: %s", a.name, a.origin, setting.Doc)
		return nil
	}
	value := a.value
	if setting.Type != config.Password {
		value = config.Canonical(setting.Type, value)
	}
	s.values[a.name] = settingValue{text: value, origin: a.origin}
	return nil
}

func didYouMean(name string) string {
	if nearest := config.Nearest(name); nearest != "" {
		return "; did you mean " + nearest + "?"
	}
	return ""
}

// judge tells every value that is not allowed, with where it was set.
func (s *Settings) judge() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.values)) {
		setting, _ := config.LookupBroker(name)
		value := s.values[name]
		if setting.Effect == config.Refused && !harmless(setting, value.text) {
			errs = append(errs, fmt.Errorf("%s: %s is refused: %s", value.origin, name, noSecurity))
			continue
		}
		if harmless(setting, value.text) {
			continue
		}
		if err := setting.ValidateBroker(value.text); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", value.origin, err))
		}
	}
	return errors.Join(errs...)
}

const noSecurity = "TLS, SASL and authorization are not supported yet, and a node that ignored them would be open to " +
	"everybody; take the setting out to run without them"

// harmless tells whether a security setting says what holds anyway: nothing, or Kafka's default.
func harmless(setting config.Setting, value string) bool {
	if setting.Effect != config.Refused {
		return false
	}
	return value == "" || setting.KafkaDefault != nil && value == config.Canonical(setting.Type, *setting.KafkaDefault)
}

// joinNodeID makes node.id and its older name broker.id one, as Kafka does.
func (s *Settings) joinNodeID() error {
	node, nodeSet := s.values["node.id"]
	broker, brokerSet := s.values["broker.id"]
	switch {
	case nodeSet && brokerSet && node.text != broker.text:
		return fmt.Errorf("%s: broker.id is the older name of node.id and must have the same value (%s), not %s",
			broker.origin, node.text, broker.text)
	case nodeSet:
		s.values["broker.id"] = node
	case brokerSet:
		s.values["node.id"] = broker
	default:
		s.defaults["broker.id"], _ = s.Lookup("node.id")
	}
	return nil
}

// noteEffects says which settings were set for nothing, in one line for each kind.
func (s *Settings) noteEffects() {
	later, without := []string{}, []string{}
	for _, name := range slices.Sorted(maps.Keys(s.values)) {
		switch setting, _ := config.LookupBroker(name); setting.Effect {
		case config.Later:
			later = append(later, name)
		case config.NoEffect:
			without = append(without, name)
		}
	}
	if len(later) > 0 {
		s.note("accepted, but not acting yet: %s", strings.Join(later, ", "))
	}
	if len(without) > 0 {
		s.note("accepted, without effect here: %s", strings.Join(without, ", "))
	}
}

func (s *Settings) warn(format string, args ...any) {
	s.notices = append(s.notices, Notice{Warning: true, Text: fmt.Sprintf(format, args...)})
}

func (s *Settings) note(format string, args ...any) {
	s.notices = append(s.notices, Notice{Text: fmt.Sprintf(format, args...)})
}

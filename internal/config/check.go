package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Validate tells why a value is not allowed: in the wrong type or out of range. Its error names the setting, the value
// and what is allowed.
func (s Setting) Validate(value string) error {
	value = strings.TrimSpace(value)
	err := checkType(s.Type, value)
	if err == nil && s.Check != nil {
		err = s.Check(value)
	}
	if err == nil {
		return nil
	}
	shown := strconv.Quote(value)
	if s.Sensitive {
		shown = "[hidden]"
	}
	return fmt.Errorf("invalid value %s for %s: %w", shown, s.Name, err)
}

func checkType(kind Type, value string) error {
	var err error
	switch kind {
	case Boolean:
		_, err = ParseBool(value)
	case Int:
		_, err = parseInt(value, 32, "INT")
	case Short:
		_, err = parseInt(value, 16, "SHORT")
	case Long:
		_, err = parseInt(value, 64, "LONG")
	case Double:
		_, err = ParseDouble(value)
	case List:
		if slices.Contains(ParseList(value), "") {
			err = fmt.Errorf("no entry of the list may be empty")
		}
	}
	return err
}

func parseInt(value string, bits int, kind string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(value), 10, bits)
	if err != nil {
		limit := int64(math.MaxInt64) >> (64 - bits)
		return 0, fmt.Errorf("must be a whole number of type %s (%d to %d)", kind, -limit-1, limit)
	}
	return n, nil
}

// ParseBool reads true or false in any case, as Kafka does; nothing else is a Boolean.
func ParseBool(value string) (bool, error) {
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("must be true or false")
}

// ParseInt reads an INT.
func ParseInt(value string) (int32, error) {
	n, err := parseInt(value, 32, "INT")
	return int32(n), err
}

// ParseLong reads a LONG.
func ParseLong(value string) (int64, error) { return parseInt(value, 64, "LONG") }

// ParseDouble reads a DOUBLE.
func ParseDouble(value string) (float64, error) {
	n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil {
		return 0, fmt.Errorf("must be a number")
	}
	return n, nil
}

// ParseList splits at commas, drops the blanks around each entry and every repetition, as Kafka does; the empty string
// is the empty list.
func ParseList(value string) []string {
	value = strings.TrimSpace(value)
	if value == "" {
		return nil
	}
	var entries []string
	for entry := range strings.SplitSeq(value, ",") {
		if entry = strings.TrimSpace(entry); !slices.Contains(entries, entry) {
			entries = append(entries, entry)
		}
	}
	return entries
}

// atLeast allows numbers from low on.
func atLeast(low int64) func(string) error {
	return func(value string) error {
		if n, err := ParseLong(value); err != nil || n < low {
			return fmt.Errorf("must be at least %d", low)
		}
		return nil
	}
}

// between allows whole numbers from low to high, both included.
func between(low, high int64) func(string) error {
	return func(value string) error {
		if n, err := ParseLong(value); err != nil || n < low || n > high {
			return fmt.Errorf("must be between %d and %d", low, high)
		}
		return nil
	}
}

// fraction allows numbers from 0 to high.
func fraction(high float64) func(string) error {
	return func(value string) error {
		if n, err := ParseDouble(value); err != nil || !(n >= 0 && n <= high) {
			return fmt.Errorf("must be between 0 and %g", high)
		}
		return nil
	}
}

// part allows a share of something: more than nothing, and no more than all of it.
func part(value string) error {
	if n, err := ParseDouble(value); err != nil || !(n > 0 && n <= 1) {
		return errors.New("must be above 0 and at most 1")
	}
	return nil
}

// oneOf allows exactly the given words.
func oneOf(words ...string) func(string) error {
	return func(value string) error {
		if !slices.Contains(words, value) {
			return fmt.Errorf("must be one of %s", strings.Join(words, ", "))
		}
		return nil
	}
}

// oneOfAnyCase allows the given words in capitals and small letters.
func oneOfAnyCase(words ...string) func(string) error {
	return func(value string) error {
		if !slices.ContainsFunc(words, func(word string) bool { return strings.EqualFold(word, value) }) {
			return fmt.Errorf("must be one of %s", strings.Join(words, ", "))
		}
		return nil
	}
}

// listOf allows lists of the given words.
func listOf(words ...string) func(string) error {
	return func(value string) error {
		for _, entry := range ParseList(value) {
			if !slices.Contains(words, entry) {
				return fmt.Errorf("each entry must be one of %s", strings.Join(words, ", "))
			}
		}
		return nil
	}
}

// someOf allows lists of the given words that are not empty.
func someOf(words ...string) func(string) error {
	return func(value string) error {
		if len(ParseList(value)) == 0 {
			return fmt.Errorf("must have at least one of %s", strings.Join(words, ", "))
		}
		return listOf(words...)(value)
	}
}

// notEmpty allows every text but the empty one.
func notEmpty(value string) error {
	if value == "" {
		return fmt.Errorf("must not be empty")
	}
	return nil
}

// rollMs allows a second and more, and −1 for never: shorter would make segments of single records.
func rollMs(value string) error {
	if n, err := ParseLong(value); err != nil || n != -1 && n < 1000 {
		return fmt.Errorf("must be at least 1000, or -1")
	}
	return nil
}

// gzipLevel allows zlib's levels: 1 to 9, and −1 for its default.
func gzipLevel(value string) error {
	if n, err := ParseLong(value); err != nil || n != -1 && (n < 1 || n > 9) {
		return fmt.Errorf("must be between 1 and 9, or -1")
	}
	return nil
}

// throttledReplicas allows "*", nothing, or a list of partition:broker.
func throttledReplicas(value string) error {
	entries := ParseList(value)
	if len(entries) == 1 && entries[0] == "*" {
		return nil
	}
	for _, entry := range entries {
		partition, broker, found := strings.Cut(entry, ":")
		_, err1 := strconv.ParseUint(partition, 10, 31)
		_, err2 := strconv.ParseUint(broker, 10, 31)
		if !found || err1 != nil || err2 != nil {
			return fmt.Errorf("must be * or a list [partitionId]:[brokerId],[partitionId]:[brokerId],...")
		}
	}
	return nil
}

// connectionOverrides allows a list of ADDRESS:COUNT, as ParseConnectionOverrides reads it.
func connectionOverrides(value string) error {
	_, err := ParseConnectionOverrides(value)
	return err
}

// ParseConnectionOverrides reads max.connections.per.ip.overrides: how many connections each address may have.
func ParseConnectionOverrides(value string) (map[string]int, error) {
	limits := map[string]int{}
	for _, entry := range ParseList(value) {
		colon := strings.LastIndexByte(entry, ':')
		if colon < 1 {
			return nil, fmt.Errorf("must be a list ADDRESS:COUNT,ADDRESS:COUNT,...")
		}
		count, err := ParseInt(entry[colon+1:])
		if err != nil || count < 0 {
			return nil, fmt.Errorf("the number of connections in %s must be at least 0", entry)
		}
		limits[strings.Trim(strings.TrimSpace(entry[:colon]), "[]")] = int(count)
	}
	return limits, nil
}

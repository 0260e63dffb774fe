package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// recordFilter is which records of those that are read are printed: all of its conditions must hold.
type recordFilter struct {
	key, value *regexp.Regexp // nil: any
	headers    []headerFilter
}

// headerFilter asks for a header with this key, and a value that matches if there is a pattern.
type headerFilter struct {
	key   string
	value *regexp.Regexp
}

func newRecordFilter(key, value string, headers []string) (recordFilter, error) {
	var filter recordFilter
	var err error
	if filter.key, err = optionalPattern("--filter-key", key); err != nil {
		return filter, err
	}
	if filter.value, err = optionalPattern("--filter-value", value); err != nil {
		return filter, err
	}
	for _, text := range headers {
		name, pattern, _ := strings.Cut(text, "=")
		if name == "" {
			return filter, fmt.Errorf("--filter-header %q has no key: give KEY or KEY=REGEX", text)
		}
		compiled, err := optionalPattern("--filter-header", pattern)
		if err != nil {
			return filter, err
		}
		filter.headers = append(filter.headers, headerFilter{name, compiled})
	}
	return filter, nil
}

// optionalPattern compiles a regular expression, if there is one.
func optionalPattern(flag, pattern string) (*regexp.Regexp, error) {
	if pattern == "" {
		return nil, nil
	}
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return compiled, nil
}

// matches tells whether a record is to be printed. A null key or value matches no pattern.
func (f *recordFilter) matches(record *kgo.Record) bool {
	if f.key != nil && (record.Key == nil || !f.key.Match(record.Key)) {
		return false
	}
	if f.value != nil && (record.Value == nil || !f.value.Match(record.Value)) {
		return false
	}
	for _, wanted := range f.headers {
		if !wanted.among(record.Headers) {
			return false
		}
	}
	return true
}

func (h headerFilter) among(headers []kgo.RecordHeader) bool {
	for _, header := range headers {
		if header.Key == h.key && (h.value == nil || header.Value != nil && h.value.Match(header.Value)) {
			return true
		}
	}
	return false
}

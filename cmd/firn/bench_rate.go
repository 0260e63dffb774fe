package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// rateFlag is how much a second: records, or megabytes as networks and benchmarks count them.
type rateFlag struct {
	text  string
	value float64
	bytes bool // else records
}

// Set implements pflag.Value.
func (r *rateFlag) Set(text string) error {
	digits := strings.TrimRight(strings.TrimSuffix(text, "/s"), "kKMGiB ")
	unit := strings.TrimSpace(strings.TrimSuffix(text, "/s")[len(digits):])
	scale, known := map[string]float64{"": 1, "k": 1e3, "M": 1e6, "kB": 1e3, "MB": 1e6, "GB": 1e9,
		"KiB": 1 << 10, "kiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]
	value, err := strconv.ParseFloat(digits, 64)
	if err != nil || !known || value < 0 || math.IsInf(value, 0) || math.IsNaN(value) {
		return fmt.Errorf("%q is not a rate: try 5000 (records a second), 10MB (10 000 000 bytes a second) or 10MiB", text)
	}
	*r = rateFlag{text: text, value: value * scale, bytes: strings.HasSuffix(unit, "B")}
	return nil
}

// String implements pflag.Value.
func (r *rateFlag) String() string { return r.text }

// Type implements pflag.Value.
func (r *rateFlag) Type() string { return "rate" }

// records is the rate in records of a size.
func (r *rateFlag) records(recordBytes int64) float64 {
	if r.bytes {
		return r.value / float64(recordBytes)
	}
	return r.value
}

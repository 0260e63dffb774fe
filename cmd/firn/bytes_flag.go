package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// byteCount is a flag's number of bytes: 1000, 64k, 1MiB. Its units are powers of 1024, as byteSize prints them.
type byteCount int64

// Set implements pflag.Value.
func (b *byteCount) Set(text string) error {
	digits := strings.TrimRight(text, "kKmMgGiIbB ")
	unit := strings.ToLower(strings.TrimSpace(text[len(digits):]))
	shifts := map[string]int{"": 0, "b": 0, "k": 10, "kb": 10, "kib": 10, "m": 20, "mb": 20, "mib": 20,
		"g": 30, "gb": 30, "gib": 30}
	shift, known := shifts[unit]
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || !known || n < 0 || n > math.MaxInt64>>shift {
		return fmt.Errorf("%q is not a number of bytes: try 16384, 16k or 1MiB", text)
	}
	*b = byteCount(n << shift)
	return nil
}

// String implements pflag.Value.
func (b *byteCount) String() string { return strconv.FormatInt(int64(*b), 10) }

// Type implements pflag.Value.
func (b *byteCount) Type() string { return "bytes" }

package main

import (
	"fmt"

	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kgo"
)

// isolationFlag is what a reader sees of transactions, under the names of Kafka's setting isolation.level.
type isolationFlag string

const (
	readUncommitted isolationFlag = "read_uncommitted"
	readCommitted   isolationFlag = "read_committed"
)

func (i *isolationFlag) addFlag(flags *pflag.FlagSet) {
	*i = readUncommitted
	flags.Var(i, "isolation", "read_committed leaves out what transactions have aborted or not yet committed")
}

// level is the setting in kgo's terms.
func (i *isolationFlag) level() kgo.IsolationLevel {
	if *i == readCommitted {
		return kgo.ReadCommitted()
	}
	return kgo.ReadUncommitted()
}

// Set implements pflag.Value.
func (i *isolationFlag) Set(text string) error {
	switch isolation := isolationFlag(text); isolation {
	case readUncommitted, readCommitted:
		*i = isolation
		return nil
	}
	return fmt.Errorf("unknown isolation %q: %s and %s are known", text, readCommitted, readUncommitted)
}

// String implements pflag.Value.
func (i *isolationFlag) String() string { return string(*i) }

// Type implements pflag.Value.
func (i *isolationFlag) Type() string { return "level" }

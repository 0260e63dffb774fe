package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kerr"
)

const (
	benchTopicPrefix = "firn-bench-"
	// A topic that was just made is not known to every broker at once: how long to wait, and between two looks.
	newTopicPatience = 10 * time.Second
	newTopicInterval = 100 * time.Millisecond
	// deletePatience bounds the end of a command that has nothing left to do but to remove its topic.
	deletePatience = 10 * time.Second
)

// benchTopic is the topic of a bench that produces: one that is there, or one of its own, which it removes.
type benchTopic struct {
	name       string
	isOwn      bool
	partitions int32
	replicas   int16
	settings   []string
	keep       bool
	made       bool // it is there, and to be removed
}

func (b *benchTopic) addFlags(flags *pflag.FlagSet) {
	flags.Int32VarP(&b.partitions, "partitions", "p", 1,
		"partitions of a topic that is made for the run; -1: the cluster's default")
	flags.Int16VarP(&b.replicas, "replicas", "r", -1, "replicas of its partitions; -1: the cluster's default")
	flags.StringArrayVarP(&b.settings, "config", "c", nil, "setting KEY=VALUE of that topic (repeatable)")
	flags.BoolVar(&b.keep, "keep", false, "do not remove that topic at the end")
}

// settle takes the command's argument. What is said about a new topic must not be said about one that is there.
func (b *benchTopic) settle(cmd *cobra.Command, args []string, now time.Time) error {
	if b.isOwn = len(args) == 0; b.isOwn {
		b.name = fmt.Sprintf("%s%08x", benchTopicPrefix, uint32(now.UnixNano()>>10))
		_, err := parseConfigs(b.settings)
		return err
	}
	b.name = args[0]
	for _, flag := range []string{"partitions", "replicas", "config", "keep"} {
		if cmd.Flags().Changed(flag) {
			return fmt.Errorf("--%s is for a topic that is made for the run, and %s was named", flag, b.name)
		}
	}
	return nil
}

// prepare creates the topic, if it is to be made, and returns its limits.
func (b *benchTopic) prepare(client *session, limits *topicLimits) (topicLimit, error) {
	if !b.isOwn {
		return limits.of(client, b.name)
	}
	configs, err := parseConfigs(b.settings)
	if err != nil {
		return topicLimit{}, err
	}
	create := createRequest{partitions: b.partitions, replicas: b.replicas}
	if _, err := create.run(client, []string{b.name}, configs); err != nil {
		return topicLimit{}, err
	}
	b.made = true
	for deadline := time.Now().Add(newTopicPatience); ; {
		limit, err := limits.of(client, b.name)
		if !errors.Is(err, kerr.UnknownTopicOrPartition) || time.Now().After(deadline) {
			return limit, err
		}
		select {
		case <-time.After(newTopicInterval):
		case <-client.ctx.Done():
			return limit, context.Cause(client.ctx)
		}
	}
}

// remove deletes the topic that was made, also after an interrupt.
func (b *benchTopic) remove(client *session) error {
	if !b.made || b.keep {
		return nil
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(client.ctx), deletePatience)
	defer stop()
	responses, err := client.admin.DeleteTopics(ctx, b.name)
	if err == nil {
		_, err = deleteOutcome([]string{b.name}, responses)
	}
	if err != nil {
		return fmt.Errorf("remove the topic %s, which was made for this: %w", b.name, err)
	}
	return nil
}

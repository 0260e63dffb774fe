package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/firnlog/firn/broker/admin/view"
)

// verification is what `tier verify` has seen last.
type verification view.Verification

func tierVerifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify [TOPIC…]",
		Short: "Hold the bucket against the manifests",
		Long: "Looks whether every object of the named topics, or of all, is in the bucket and whole, and whether there is " +
			"anything that nobody knows, and waits until that is done. It only reads. The broker does it in the background " +
			"and goes on after a restart; an interrupted command leaves it running.",
	}
	server := addHTTPFlag(cmd)
	depth := cmd.Flags().String("depth", "tails", "how closely: listing (are they there), tails (a request for each), "+
		"or data (every byte is read)")
	status := cmd.Flags().Bool("status", false, "begin nothing, show how far it is or how the last one went")
	stop := cmd.Flags().Bool("stop", false, "end the one under way")
	cmd.MarkFlagsMutuallyExclusive("status", "stop")
	return printing(cmd, func(cmd *cobra.Command, topics []string) (*verification, error) {
		var seen verification
		if *status || *stop {
			ask := server.get
			if *stop {
				ask = server.delete
			}
			if err := ask(cmd.Context(), view.PathVerify, &seen); err != nil {
				return nil, err
			}
			return &seen, nil
		}
		query := url.Values{"topic": topics, "depth": {*depth}}
		if err := server.post(cmd.Context(), view.PathVerify+"?"+query.Encode(), &seen); err != nil {
			return nil, err
		}
		last, err := follow(cmd.Context(), &seen, func() (*verification, error) {
			var seen verification
			return &seen, server.get(cmd.Context(), view.PathVerify, &seen)
		}, cmd.ErrOrStderr())
		if err != nil {
			return nil, err
		}
		return last, last.failure()
	})
}

func (v *verification) busy() bool { return v.Running }

func (v *verification) progress() string {
	text := fmt.Sprintf("%d of %d partitions, %d objects, %s read, %d findings", v.Verified, v.Partitions, v.Objects,
		byteSize(v.Bytes), v.total())
	if v.Error != "" {
		text += "; waits: " + v.Error
	}
	return text
}

func (v *verification) total() (all int64) {
	for _, count := range v.Found {
		all += count
	}
	return all
}

func (v *verification) failure() error {
	switch {
	case v.Error != "":
		return errors.New(v.Error)
	case v.total() > 0:
		return fmt.Errorf("%d objects are not as they should be", v.total())
	}
	return nil
}

func (v *verification) writeText(w io.Writer) error {
	if v.StartedAt == 0 {
		_, err := fmt.Fprintln(w, "nothing was verified yet")
		return err
	}
	if _, err := fmt.Fprintf(w, "depth %s: %s\n", v.Depth, v.progress()); err != nil || len(v.Findings) == 0 {
		return err
	}
	rows := make([][]string, 0, len(v.Findings))
	for _, f := range v.Findings {
		rows = append(rows, []string{f.Kind, f.Topic, strconv.Itoa(int(f.Partition)), decimal(f.BaseOffset),
			decimal(f.EndOffset), f.Key, f.Detail})
	}
	return table(w, []string{"FINDING", "TOPIC", "PARTITION", "START", "END", "KEY", "DETAIL"}, rows)
}

// garbage is what `tier gc` found.
type garbage view.Garbage

func tierGarbageCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Show what waits to be deleted from the bucket, and why",
		Long: "Objects leave the bucket by rule only: their removal is committed, two later checkpoints are durable, the " +
			"grace time (firn.tier.gc.grace.ms) is over and no bulk read has pinned them.",
		Args: takes(cobra.NoArgs),
	}
	server := addHTTPFlag(cmd)
	now := cmd.Flags().Bool("now", false, "have what is due deleted at once, not within a minute")
	return printing(cmd, func(cmd *cobra.Command, _ []string) (*garbage, error) {
		ask, found := server.get, garbage{}
		if *now {
			ask = server.post
		}
		if err := ask(cmd.Context(), view.PathGarbage, &found); err != nil {
			return nil, err
		}
		if found.Error != "" {
			return &found, fmt.Errorf("the last collection failed and is tried again: %s", found.Error)
		}
		return &found, nil
	})
}

func (g *garbage) writeText(w io.Writer) error {
	return table(w, []string{"WAITS FOR", "PIECES"}, [][]string{
		{"grace time", strconv.Itoa(g.Grace)},
		{"checkpoints", strconv.Itoa(g.Checkpoints)},
		{"pins", strconv.Itoa(g.Pins)},
		{"nothing", strconv.Itoa(g.Due)},
	})
}

package main

import (
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	node "github.com/firnlog/firn"
	"github.com/firnlog/firn/internal/kafka"
)

// restoreResult is what `restore` has brought back, or would.
type restoreResult node.RestoreReport

// restoreFlags are those of `restore` besides the node's own.
type restoreFlags struct {
	node     *nodeFlags
	store    string
	cluster  string
	topics   []string
	dryRun   bool
	takeOver string
}

func restoreCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Bring a cluster, or some of its topics, back from the bucket alone",
		Long: "Makes the directories of a node from what a lost cluster has left in the bucket: topics with their\n" +
			"settings, all that was uploaded of their records, and the committed offsets of groups. No data is downloaded.\n" +
			"`firn serve` with the same settings then runs a new cluster, which owns what the old one had in the bucket:\n" +
			"make sure that the old one is stopped for good.\n\n" +
			"Directories that hold data are refused, except with --topic, which adds topics to a node that is stopped. What\n" +
			"was not uploaded yet is lost; offsets that were committed past it are moved back, and listed. Topics without\n" +
			"remote.storage.enable come back empty.",
		Example: "  firn restore --store 's3://bucket/prefix' --dry-run\n" +
			"  firn restore --store 's3://bucket/prefix' --data-dir /var/lib/firn\n" +
			"  firn restore --store 's3://bucket/prefix' --data-dir /var/lib/firn --topic events",
		Args: takes(cobra.NoArgs),
	}
	flags := restoreFlags{node: addNodeFlags(cmd)}
	cmd.Flags().StringVar(&flags.store, "store", "", "`URL` of the object store (default firn.object.store)")
	cmd.Flags().StringVar(&flags.cluster, "cluster", "",
		"`ID` of the lost cluster, as in the bucket's keys (default the only one that nobody has taken over)")
	cmd.Flags().StringArrayVar(&flags.topics, "topic", nil, "only the topic `NAME`; may be repeated")
	cmd.Flags().BoolVar(&flags.dryRun, "dry-run", false, "only show what would come back, up to which offset")
	cmd.Flags().StringVar(&flags.takeOver, "take-over", "",
		"put this restore in the place of an earlier one, of cluster `ID`, which never came to life")
	return printing(cmd, func(cmd *cobra.Command, _ []string) (*restoreResult, error) {
		cfg, options, err := flags.load(cmd)
		if err != nil {
			return nil, err
		}
		logger := newLogger(cmd.ErrOrStderr(), formatText, slog.LevelWarn)
		report, err := node.Restore(cmd.Context(), cfg, node.Dependencies{Logger: logger}, options)
		return (*restoreResult)(report), err
	})
}

func (f *restoreFlags) load(cmd *cobra.Command) (node.Config, node.RestoreOptions, error) {
	options := node.RestoreOptions{Topics: f.topics, DryRun: f.dryRun}
	for _, flag := range []struct {
		name, value string
		to          *kafka.UUID
	}{{"cluster", f.cluster, &options.Cluster}, {"take-over", f.takeOver, &options.TakeOver}} {
		if flag.value == "" {
			continue
		}
		id, err := node.ParseClusterID(flag.value)
		if err != nil {
			return node.Config{}, options, usageError{cmd.CommandPath(), fmt.Errorf("--%s: %w", flag.name, err)}
		}
		*flag.to = id
	}
	if f.store != "" {
		f.node.set = append(f.node.set, "firn.object.store="+f.store)
	}
	cfg, err := f.node.load()
	return cfg, options, err
}

func (r *restoreResult) writeText(w io.Writer) error {
	verb := "Restored"
	if r.DryRun {
		verb = "Would restore"
	}
	fmt.Fprintf(w, "%s %s of cluster %s, as of the checkpoint of %s (index %d) and what was uploaded since.\n", verb,
		counted(len(r.Topics), "topic"), r.From, r.CheckpointAt, r.Checkpoint)
	for _, damaged := range r.Damaged {
		fmt.Fprintf(w, "A newer checkpoint was passed over: %s.\n", damaged)
	}
	fmt.Fprintln(w)
	if err := table(w, []string{"TOPIC", "PARTITION", "OFFSETS", "SEGMENTS", "BYTES", "NEWER THAN CHECKPOINT"},
		r.partitionRows()); err != nil {
		return err
	}
	r.writeDamage(w)
	fmt.Fprintf(w, "\n%s of %s.\n", counted(r.Offsets, "committed offset"), counted(r.Groups, "group"))
	if len(r.Clamps) > 0 {
		fmt.Fprintf(w, "%s past the end of what comes back:\n", counted(len(r.Clamps), "offset"))
		var rows [][]string
		for _, c := range r.Clamps {
			rows = append(rows, []string{c.Group, c.Topic, strconv.Itoa(int(c.Partition)), decimal(c.Committed),
				decimal(c.Restored)})
		}
		if err := table(w, []string{"GROUP", "TOPIC", "PARTITION", "COMMITTED", "MOVED BACK TO"}, rows); err != nil {
			return err
		}
	}
	for _, refused := range r.NotCommitted {
		fmt.Fprintf(w, "Not committed: %s.\n", refused)
	}
	if !r.DryRun {
		fmt.Fprintf(w, "\nIt is cluster %s now, made in %.1f s: start it with `firn serve` and the same settings.\n",
			r.Cluster, r.Seconds)
	}
	return nil
}

func (r *restoreResult) partitionRows() [][]string {
	var rows [][]string
	for _, topic := range r.Topics {
		for _, p := range topic.Partitions {
			offsets := fmt.Sprintf("%d–%d", p.Start, p.End)
			switch {
			case !topic.Tiered:
				offsets = "not in the bucket"
			case p.Start == p.End:
				offsets = fmt.Sprintf("none, from %d on", p.End)
			}
			rows = append(rows, []string{topic.Name, strconv.Itoa(int(p.Partition)), offsets, decimal(p.Segments),
				byteSize(p.Bytes), strconv.Itoa(p.Found)})
		}
	}
	return rows
}

func (r *restoreResult) writeDamage(w io.Writer) {
	for _, topic := range r.Topics {
		for _, p := range topic.Partitions {
			if len(p.Damaged) > 0 {
				fmt.Fprintf(w, "%s-%d: %s.\n", topic.Name, p.Partition, strings.Join(p.Damaged, "; "))
			}
		}
	}
}

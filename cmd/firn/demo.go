package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/spf13/cobra"

	node "github.com/firnlog/firn"
	"github.com/firnlog/firn/cmd/firn/demo"
)

func demoCommand() *cobra.Command {
	options := demo.Options{}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the main job on 27 004 real events: in by Kafka, down into the bucket, back the same",
		Long: "Start a broker in a fresh directory and on free ports, produce 27 004 real events, watch them sink into a\n" +
			"bucket and vanish from local disk, read them back and compare; again after a restart; and again after\n" +
			"everything but the bucket was removed and restored from it. It takes less than half a minute, and fails if\n" +
			"one byte differs.",
		Args: takes(cobra.NoArgs),
	}
	cmd.Flags().StringVar(&options.Dir, "dir", "", "`DIR` for the data, which stays there (default a temporary one)")
	cmd.Flags().StringVar(&options.Store, "store", "",
		"`URL` of a real object store, such as s3://BUCKET/FOLDER; what is put there stays (default a folder in DIR)")
	cmd.Flags().BoolVar(&options.Keep, "keep", false, "leave the temporary directory behind")
	format := cmd.Flags().StringP("format", "f", formatText,
		"text, json (a summary; the story goes to stderr), or help for the fields of the JSON")
	completeFormat(cmd, formatText, formatJSON, formatHelp)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkFormat(cmd, *format, formatText, formatJSON, formatHelp); err != nil {
			return err
		}
		if *format == formatHelp {
			return writeSchema[demo.Summary](cmd.OutOrStdout())
		}
		options.Out = cmd.OutOrStdout()
		if *format == formatJSON {
			options.Out = cmd.ErrOrStderr()
		}
		options.Terminal = isTerminal(options.Out)
		logger := newLogger(cmd.ErrOrStderr(), *format, slog.LevelWarn)
		options.Start, options.Restore = startForDemo(logger, options.Store), restoreForDemo(logger, options.Store)
		summary, err := demo.Run(cmd.Context(), options)
		if summary == nil {
			return err
		}
		if *format == formatJSON {
			return errors.Join(err, writeJSON(cmd.OutOrStdout(), summary))
		}
		return errors.Join(err, summary.WriteText(cmd.OutOrStdout()))
	}
	return cmd
}

// configForDemo is that of a node that nobody has configured: no file, no environment, only what the demo needs.
func configForDemo(dir, store string) (node.Config, error) {
	settings := []string{
		"listeners=PLAINTEXT://127.0.0.1:0",
		"firn.http.listener=127.0.0.1:0",
		"log.retention.check.interval.ms=" + strconv.FormatInt(demo.RetentionCheckInterval.Milliseconds(), 10),
	}
	if store != "" {
		settings = append(settings, "firn.object.store="+store)
	}
	cfg, err := node.LoadConfig(node.Sources{DataDir: dir, Set: settings})
	if err != nil {
		return cfg, fmt.Errorf("configure the demo's broker: %w", err)
	}
	return cfg, nil
}

func startForDemo(logger *slog.Logger, store string) func(context.Context, string) (demo.Node, error) {
	return func(ctx context.Context, dir string) (demo.Node, error) {
		cfg, err := configForDemo(dir, store)
		if err != nil {
			return nil, err
		}
		return node.Start(ctx, cfg, node.Dependencies{Logger: logger})
	}
}

func restoreForDemo(logger *slog.Logger, store string) func(context.Context, string, string) error {
	return func(ctx context.Context, dir, cluster string) error {
		cfg, err := configForDemo(dir, store)
		if err != nil {
			return err
		}
		id, err := node.ParseClusterID(cluster)
		if err != nil {
			return err
		}
		_, err = node.Restore(ctx, cfg, node.Dependencies{Logger: logger}, node.RestoreOptions{Cluster: id})
		return err
	}
}

var _ demo.Node = (*node.Node)(nil)

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
			"bucket and vanish from local disk, read them back and compare, before and after a restart. It takes less than\n" +
			"half a minute, and fails if one byte differs.",
		Args: takes(cobra.NoArgs),
	}
	cmd.Flags().StringVar(&options.Dir, "dir", "", "`DIR` for the data, which stays there (default a temporary one)")
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
		options.Start = startForDemo(newLogger(cmd.ErrOrStderr(), *format, slog.LevelWarn))
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

// startForDemo starts nodes that nobody has configured: no file, no environment, only what the demo needs.
func startForDemo(logger *slog.Logger) func(context.Context, string) (demo.Node, error) {
	return func(ctx context.Context, dir string) (demo.Node, error) {
		cfg, err := node.LoadConfig(node.Sources{DataDir: dir, Set: []string{
			"listeners=PLAINTEXT://127.0.0.1:0",
			"firn.http.listener=127.0.0.1:0",
			"log.retention.check.interval.ms=" + strconv.FormatInt(demo.RetentionCheckInterval.Milliseconds(), 10),
		}})
		if err != nil {
			return nil, fmt.Errorf("configure the demo's broker: %w", err)
		}
		return node.Start(ctx, cfg, node.Dependencies{Logger: logger})
	}
}

var _ demo.Node = (*node.Node)(nil)

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"

	node "github.com/firnlog/firn"
)

// stopTimeout is how long a clean stop may take before the process ends without it: a crash is survived, too.
const stopTimeout = 60 * time.Second

func serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a node in the foreground",
		Long: "Run a node in the foreground until SIGINT or SIGTERM, with its log on stderr.\n\n" +
			"Without any configuration it serves Kafka on 127.0.0.1:9092 and HTTP on 127.0.0.1:9644, and keeps its data,\n" +
			"and a directory that stands in for a bucket, under ./firn-data. `firn config` shows every setting.",
		Example: "  firn serve\n" +
			"  firn serve --data-dir /var/lib/firn --set listeners=PLAINTEXT://0.0.0.0:9092 \\\n" +
			"    --set 'firn.object.store=s3://bucket/prefix?endpoint=http://127.0.0.1:7070&path_style=true'",
		Args: takes(cobra.NoArgs),
	}
	flags := addNodeFlags(cmd)
	format := cmd.Flags().StringP("format", "f", formatText, "format of the log: text or json")
	level := slog.LevelInfo
	cmd.Flags().TextVar(&level, "log-level", level, "what is logged: debug, info, warn or error")
	completeFormat(cmd, formatText, formatJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkFormat(cmd, *format, formatText, formatJSON); err != nil {
			return err
		}
		cfg, err := flags.load()
		if err != nil {
			return err
		}
		return serve(cmd.Context(), cfg, newLogger(cmd.ErrOrStderr(), *format, level))
	}
	return cmd
}

// serve runs a node until ctx ends or the node fails.
func serve(ctx context.Context, cfg node.Config, logger *slog.Logger) error {
	logger.Info("firn", "version", currentVersion().Version, "data", cfg.DataDir)
	for _, notice := range cfg.Settings.Notices() {
		level := slog.LevelInfo
		if notice.Warning {
			level = slog.LevelWarn
		}
		logger.Log(ctx, level, notice.Text)
	}
	running, err := node.Start(ctx, cfg, node.Dependencies{Logger: logger})
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	select {
	case <-ctx.Done():
		logger.Info("stopping")
	case <-running.Failed():
	}
	stopCtx, done := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer done()
	if err := running.Stop(stopCtx); err != nil {
		return fmt.Errorf("the node has failed: %w", err)
	}
	logger.Info("stopped")
	return nil
}

// newLogger writes colours for a person, text for a file and JSON on demand.
func newLogger(w io.Writer, format string, level slog.Level) *slog.Logger {
	switch {
	case format == formatJSON:
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
	case isTerminal(w):
		return slog.New(tint.NewTextHandler(w, &tint.Options{
			Level: level, TimeFormat: time.TimeOnly, NoColor: !hasColours(w),
		}))
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

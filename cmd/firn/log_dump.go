package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/vfs"
)

func logDumpCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dump PATH|URL",
		Short: "Print what is in a file of a log, in the folder of a partition or in objects of a bucket",
		Long: "Print each batch, index entry and producer in a line, in the words of Kafka's dump tool. PATH is a file\n" +
			"(.log, .index, .timeindex, .txnindex, .snapshot, leader-epoch-checkpoint, partition.metadata), the folder of a\n" +
			"partition, or an object of a bucket: a segment (.seg), a part of a manifest (.leaf, .node) or of a checkpoint\n" +
			"(.ckpt, .shard).\n\n" + objectURLHelp,
		Example: "  firn log dump firn-data/log/flights-0\n  firn log dump --records 00000000000000000000.log -f json\n" +
			"  firn log dump 's3://bucket/folder/00112233445566778899aabbccddeeff/meta/ckpt/?region=eu-central-1'",
		Args: takes(cobra.ExactArgs(1)),
	}
	records := cmd.Flags().Bool("records", false, "print each record of a batch, too")
	format := cmd.Flags().StringP("format", "f", formatText,
		"output format: text, json (an object a line), or help for the fields of the JSON")
	completeFormat(cmd, formatText, formatJSON, formatHelp)
	checkArgs := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if *format == formatHelp {
			return nil
		}
		return checkArgs(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkFormat(cmd, *format, formatText, formatJSON, formatHelp); err != nil {
			return err
		}
		if *format == formatHelp {
			return writeDumpSchema(cmd.OutOrStdout())
		}
		out := bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16)
		visit := func(item fmt.Stringer) error {
			_, err := fmt.Fprintln(out, item)
			return err
		}
		if *format == formatJSON {
			encoder := json.NewEncoder(out)
			encoder.SetEscapeHTML(false)
			visit = func(item fmt.Stringer) error { return encoder.Encode(dumpedLine(item)) }
		}
		return errors.Join(dump(cmd.Context(), args[0], storage.DumpOptions{Records: *records}, visit), out.Flush())
	}
	return cmd
}

// dump visits what is in a file of a log, or in the objects that a path or URL names.
func dump(ctx context.Context, place string, options storage.DumpOptions, visit func(fmt.Stringer) error) error {
	found, err := eachObject(ctx, place, func(object bucketObject) error {
		if err := dumpObject(object, options, visit); err != nil {
			return fmt.Errorf("dump %s: %w", object.name, err)
		}
		return nil
	})
	if err != nil || found > 0 {
		return err
	}
	if err := storage.Dump(vfs.OS(), filepath.ToSlash(place), options, visit); err != nil {
		return fmt.Errorf("dump: %w", err)
	}
	return nil
}

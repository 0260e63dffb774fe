package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/vfs"
	"github.com/firnlog/firn/tiering/segment"
)

func logCommand() *cobra.Command {
	return group(&cobra.Command{Use: "log", Short: "Look into files of a log and objects of a bucket, without a broker"},
		logDumpCommand(),
		logVerifyCommand(),
	)
}

// verified is what `log verify` found.
type verified struct{ storage.VerifyReport }

func logVerifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify PATH|URL…",
		Short: "Check files of a log, the folder of a partition, a log directory or objects of a bucket",
		Long: "Check every checksum, record, offset and index entry. What is wrong is printed with its file and position,\n" +
			"and makes the exit status non-zero. PATH is a file (.log, .index, .timeindex, .txnindex, .snapshot, .seg,\n" +
			".leaf, .node, .ckpt, .shard, …) or a directory with such files. Files that a running broker writes to can look\n" +
			"torn at their end.\n\n" + objectURLHelp,
		Example: "  firn log verify firn-data/log/flights-0\n  firn log verify firn-data/bucket",
		Args:    takes(cobra.MinimumNArgs(1)),
	}
	return printing(cmd, func(cmd *cobra.Command, paths []string) (*verified, error) {
		report := &verified{storage.VerifyReport{Problems: []storage.VerifyProblem{}}}
		for _, path := range paths {
			if err := report.verify(cmd.Context(), path); err != nil {
				return report, err
			}
		}
		if problems := len(report.Problems); problems > 0 {
			return report, fmt.Errorf("%s found in %s", counted(problems, "problem"), counted(report.Files, "file"))
		}
		return report, nil
	})
}

// verify adds what is found in a file, or in a directory and those below it, or in the objects that a URL names.
func (v *verified) verify(ctx context.Context, place string) error {
	var report storage.VerifyReport
	if !isURL(place) && !isObjectName(place) {
		var err error
		report, err = storage.Verify(vfs.OS(), filepath.ToSlash(place))
		v.add(report)
		if err != nil {
			return fmt.Errorf("verify %s: %w", place, err)
		}
	}
	objects, err := eachObject(ctx, place, func(object bucketObject) error { return v.verifyObject(ctx, object) })
	if err == nil && report.Files == 0 && objects == 0 {
		err = errors.New("it holds neither files of a log nor objects of a bucket")
	}
	if err != nil {
		return fmt.Errorf("verify %s: %w", place, err)
	}
	return nil
}

// verifyObject checks one object. Damage is a problem, not an error: the others are still looked at.
func (v *verified) verifyObject(ctx context.Context, object bucketObject) error {
	report := storage.VerifyReport{Files: 1}
	var corrupt *segment.CorruptError
	if object.isSegment() {
		tail, err := segment.Verify(ctx, object, object.size)
		switch {
		case errors.As(err, &corrupt):
		case err != nil:
			return err
		case object.key != "" && tail.Key().String() != object.key:
			corrupt = &segment.CorruptError{Position: tail.DataBytes, Err: fmt.Errorf("the tail belongs to %s", tail.Key())}
		default:
			report.Batches, report.Records, report.Bytes = tail.BatchCount, tail.RecordCount, tail.DataBytes
		}
	} else if _, err := object.parse(); err != nil && !errors.As(err, &corrupt) {
		return err
	}
	if corrupt != nil {
		report.Problems = []storage.VerifyProblem{{
			File: object.name, Position: corrupt.Position, Message: corrupt.Err.Error(),
		}}
	}
	v.add(report)
	return nil
}

func (v *verified) add(report storage.VerifyReport) {
	v.Files += report.Files
	v.Batches += report.Batches
	v.Records += report.Records
	v.Bytes += report.Bytes
	v.Problems = append(v.Problems, report.Problems...)
}

func (v *verified) writeText(w io.Writer) error {
	for _, problem := range v.Problems {
		fmt.Fprintln(w, problem)
	}
	_, err := fmt.Fprintf(w, "verified %s: %d batches, %d records, %s\n", counted(v.Files, "file"), v.Batches, v.Records,
		byteSize(v.Bytes))
	return err
}

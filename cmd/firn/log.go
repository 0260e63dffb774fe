package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/vfs"
	"github.com/firnlog/firn/tiering/segment"
)

// objectSuffix marks segment objects: in a directory bucket, or fetched from another one.
const objectSuffix = ".seg"

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
		Use:   "verify PATH…",
		Short: "Check files of a log, the folder of a partition, a log directory or the directory of a bucket",
		Long: "Check every checksum, record, offset and index entry. What is wrong is printed with its file and position,\n" +
			"and makes the exit status non-zero. PATH is a file (.log, .index, .timeindex, .txnindex, .snapshot, .seg, …) or\n" +
			"a directory with such files. Files that a running broker writes to can look torn at their end.",
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

// verify adds what is found in a file, or in a directory and those below it.
func (v *verified) verify(ctx context.Context, path string) error {
	if filepath.Ext(path) == objectSuffix {
		return v.verifyObject(ctx, path)
	}
	report, err := storage.Verify(vfs.OS(), filepath.ToSlash(path))
	v.add(report)
	if err != nil {
		return fmt.Errorf("verify %s: %w", path, err)
	}
	objects := 0
	err = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(name) != objectSuffix {
			return err
		}
		objects++
		return v.verifyObject(ctx, name)
	})
	if err == nil && report.Files == 0 && objects == 0 {
		err = errors.New("it holds neither files of a log nor segment objects")
	}
	if err != nil {
		return fmt.Errorf("verify %s: %w", path, err)
	}
	return nil
}

// verifyObject checks one segment object. Damage is a problem, not an error: the others are still looked at.
func (v *verified) verifyObject(ctx context.Context, name string) error {
	object, err := os.Open(name)
	if err != nil {
		return err
	}
	defer object.Close()
	info, err := object.Stat()
	if err != nil {
		return err
	}
	tail, err := segment.Verify(ctx, object, info.Size())
	report := storage.VerifyReport{Files: 1}
	var corrupt *segment.CorruptError
	switch {
	case errors.As(err, &corrupt):
		report.Problems = []storage.VerifyProblem{{File: name, Position: corrupt.Position, Message: corrupt.Err.Error()}}
	case err != nil:
		return fmt.Errorf("verify %s: %w", name, err)
	default:
		report.Batches, report.Records, report.Bytes = tail.BatchCount, tail.RecordCount, tail.DataBytes
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

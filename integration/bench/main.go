//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/firnlog/firn/integration/bench/replay"
	"github.com/firnlog/firn/integration/bench/report"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	switch {
	case len(os.Args) == 2 && os.Args[1] == rawCommand:
		err = runRaw(ctx, os.Stdin, os.Stdout)
	case len(os.Args) == 2 && os.Args[1] == assistCommand:
		err = runAssistant(ctx, os.Stdin, os.Stdout)
	default:
		err = run(ctx, os.Args[1:], os.Stdout)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	rows, results, page string
	events              string
	firn, kafkaLib      string
	versitygw           string
	scratch             string
	brokerCPU           int
	effort              effort
}

// effort is how long a row is looked at.
type effort struct {
	blocks       int
	runSeconds   float64 // that a run is made to take
	mostPerRun   int64   // bytes
	warmUpBytes  int64   // at most, for a side of a row
	warmUpTime   time.Duration
	openSeconds  float64 // that a run of an open loop takes
	startRepeats int
	scale        float64 // of sizes that take long to make: partitions, segments, gigabytes
}

// thorough is what the page is made with. Kafka's compiler needs 10 GB of a workload.
var thorough = effort{
	blocks: 5, runSeconds: 3, mostPerRun: 2e9, warmUpBytes: 12e9, warmUpTime: 2 * time.Minute, openSeconds: 6,
	startRepeats: 3, scale: 1,
}

// quick tells whether rows run, and nothing of how fast.
var quick = effort{
	blocks: 1, runSeconds: 0.5, mostPerRun: 2e8, warmUpBytes: 1e9, warmUpTime: 5 * time.Second, openSeconds: 2,
	startRepeats: 1, scale: 0.05,
}

func parse(args []string, out io.Writer) (options, error) {
	o := options{effort: thorough}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&o.rows, "rows", "goals",
		"rows by name, with * and ?: goals, all, or some of them; list names them, none makes the page only")
	flags.StringVar(&o.results, "results", "docs/benchmarks.json", "file that keeps the results")
	flags.StringVar(&o.page, "page", "docs/benchmarks.md", "page to make of them")
	flags.StringVar(&o.events, "events", "cmd/firn/demo/data/flights-2013-01.jsonl.gz",
		"lines to make records of, gzipped")
	flags.StringVar(&o.firn, "firn", os.Getenv("FIRN_BIN"), "the built firn")
	flags.StringVar(&o.kafkaLib, "kafka", os.Getenv("FIRN_KAFKA_LIB"), "folder with Kafka's jars")
	flags.StringVar(&o.versitygw, "versitygw", os.Getenv("FIRN_VERSITYGW"), "the S3 server")
	flags.StringVar(&o.scratch, "scratch", os.TempDir(), "folder for data, on the disk to measure; some 30 GB")
	flags.IntVar(&o.brokerCPU, "broker-cpu", 0, "processor of the brokers; the client should be pinned to another")
	blocks := flags.Int("blocks", 0, "blocks of Kafka, firn, firn, Kafka for a row; 0 leaves it to the effort")
	flags.Func("effort", "thorough (the default), or quick to see whether rows run", func(name string) error {
		switch name {
		case "thorough":
		case "quick":
			o.effort = quick
		default:
			return errors.New("it is thorough or quick")
		}
		return nil
	})
	err := flags.Parse(args)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("%q: rows are named with -rows", flags.Arg(0))
	}
	if *blocks > 0 {
		o.effort.blocks = *blocks
	}
	return o, err
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args, out)
	if err != nil {
		return err
	}
	all := table()
	rows := make([]report.Row, len(all))
	for i, e := range all {
		rows[i] = e.Row
	}
	if o.rows == "list" {
		list(out, rows)
		return nil
	}
	if o.rows == "none" { // the page only: somebody has written a cause, or changed a row
		file, err := report.Load(o.results)
		return errors.Join(err, file.WritePage(o.page, rows))
	}
	chosen, err := report.Select(rows, o.rows)
	if err != nil {
		return err
	}
	file, err := report.Load(o.results)
	if err != nil {
		return err
	}
	if file.Machine, err = machine(ctx, o); err != nil {
		return err
	}
	b, err := newBench(o, out)
	if err != nil {
		return err
	}
	defer b.close()
	commit := describeCommit(ctx)
	for i, row := range chosen {
		b.say("%s (%d of %d)", row.Name, i+1, len(chosen))
		result := b.row(ctx, entryOf(all, row.Name))
		if ctx.Err() != nil {
			return ctx.Err() // what has been measured is written
		}
		result.Commit = commit
		file.Results[row.Name] = result
		if err := errors.Join(file.Save(o.results), file.WritePage(o.page, rows)); err != nil {
			return err
		}
		show(out, row, result)
	}
	return nil
}

func list(out io.Writer, rows []report.Row) {
	seconds := 0
	for _, row := range rows {
		kind := "goals"
		if row.ByName {
			kind = "by name"
		} else {
			seconds += row.Seconds
		}
		fmt.Fprintf(out, "%-44s %-8s class %-2s about %4d s  %s\n", row.Name, kind, row.Class, row.Seconds, row.What)
	}
	fmt.Fprintf(out, "%d rows; all of goals take about %d minutes\n", len(rows), seconds/60)
}

// show prints what a row gave.
func show(out io.Writer, row report.Row, result report.Result) {
	if result.Failed != "" {
		fmt.Fprintf(out, "  failed: %s\n", result.Failed)
		return
	}
	for _, metric := range row.Metrics {
		subject, ok := result.Subject(metric)
		if !ok {
			continue
		}
		fmt.Fprintf(out, "  %-36s %10.4g", metric, subject.Median)
		if base, ok := result.Base(metric); ok {
			fmt.Fprintf(out, " to %10.4g", base.Median)
		}
		if ratio, ok := result.Ratio(metric); ok {
			fmt.Fprintf(out, "  ratio %.3g (%.3g to %.3g)", ratio.Median, ratio.Low, ratio.High)
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintf(out, "  took %.0f s, others used %.0f %% of the machine\n", result.Seconds, 100*result.Foreign)
}

// newBench makes the folder for all data.
func newBench(o options, out io.Writer) (*bench, error) {
	for flag, value := range map[string]string{"firn": o.firn, "kafka": o.kafkaLib} {
		if _, err := os.Stat(value); err != nil {
			return nil, fmt.Errorf("-%s: %w; `make bench-kafka` sets it", flag, err)
		}
	}
	if _, err := exec.LookPath("taskset"); err != nil {
		return nil, fmt.Errorf("brokers are pinned with taskset: %w", err)
	}
	events, err := replay.LoadEvents(o.events)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(o.scratch, "firn-bench-")
	if err != nil {
		return nil, err
	}
	return &bench{
		options: o, events: events, out: out, dir: dir, began: time.Now(), brokers: map[brokerKind]*running{},
	}, nil
}

// describeCommit names the commit that is measured, and says if files differ from it.
func describeCommit(ctx context.Context) string {
	output, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=10").Output()
	if err != nil {
		return "no commit"
	}
	return strings.TrimSpace(string(output))
}

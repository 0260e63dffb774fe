package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// rootCommand builds the whole tree. It has no state beyond the tree, so a test may build as many as it likes.
func rootCommand() *cobra.Command {
	root := group(&cobra.Command{
		Use:   "firn",
		Short: "A log service that speaks Kafka and keeps its history in a bucket",
		Long: "firn is a Kafka cluster to its clients, and keeps the history of its topics in object storage.\n" +
			"`firn demo` shows what it does; `firn serve` runs a node on 127.0.0.1:9092.\n\n" +
			"Results go to stdout; what goes wrong goes to stderr, in one line. Exit status:\n" +
			"  0  everything that was asked for was done\n" +
			"  1  it failed, or was interrupted before it was done\n" +
			"  2  the command line is wrong\n" +
			"  3  some of several things were done; the output tells which\n" +
			"  4  the cluster does not allow it\n\n" +
			"Colours and progress appear on terminals only; NO_COLOR=1 turns the colours off. Commands that talk to a\n" +
			"cluster take -b HOST:PORT, else FIRN_BROKERS or KAFKA_BROKERS from the environment.",
	},
		serveCommand(),
		healthcheckCommand(),
		configCommand(),
		demoCommand(),
		topicCommand(),
		produceCommand(),
		consumeCommand(),
		groupCommand(),
		transactionCommand(),
		tierCommand(),
		restoreCommand(),
		logCommand(),
		benchCommand(),
		versionCommand(),
	)
	// One line on stderr is all that a failure prints (main.go): no usage text that pushes it off the screen.
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{cmd.CommandPath(), err}
	})
	return root
}

// group is a command that only has commands below it. Called without one of them it prints its help and fails, since
// nothing was done.
func group(cmd *cobra.Command, children ...*cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.SuggestionsMinimumDistance = 2
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			if err := cmd.Help(); err != nil {
				return err
			}
			return usageError{cmd.CommandPath(), errors.New("a command is missing")}
		}
		message := fmt.Sprintf("unknown command %q", args[0])
		if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
			message += "; did you mean " + strings.Join(similar, " or ") + "?"
		}
		return usageError{cmd.CommandPath(), errors.New(message)}
	}
	cmd.AddCommand(children...)
	return cmd
}

// takes wraps an argument check of cobra's, so that a wrong count is a usage error and tells what is expected.
func takes(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{cmd.CommandPath(), fmt.Errorf("%w: %s %s", err, cmd.Parent().CommandPath(), cmd.Use)}
		}
		return nil
	}
}

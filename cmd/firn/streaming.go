package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// formatJSONLines is another name for formatJSON where there is one record a line.
const formatJSONLines = "jsonl"

// formatRaw is an input that is one value as a whole.
const formatRaw = "raw"

// finishStreaming gives a command that streams records, and so does not print one result, the checks of --format: the
// known formats, which may be more than every command has, or a layout of kgo's, which has a percent sign in it.
func finishStreaming(cmd *cobra.Command, format *string, more ...string) *cobra.Command {
	known := slices.Concat([]string{formatText, formatJSON, formatJSONLines}, more, []string{formatHelp})
	checkArgs := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if strings.Contains(*format, "%") {
			return checkArgs(cmd, args)
		}
		if err := checkFormat(cmd, *format, known...); err != nil {
			return fmt.Errorf("%w; a layout has percent signs, such as '%%k %%v\\n'", err)
		}
		if *format == formatHelp {
			return nil
		}
		return checkArgs(cmd, args)
	}
	completeFormat(cmd, known...)
	return cmd
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// The formats every command knows.
const (
	formatText = "text"
	formatJSON = "json"
	formatHelp = "help"
)

// result is what a command has found or done. The exported fields with their json tags are its JSON form.
type result[T any] interface {
	*T
	writeText(w io.Writer) error
}

// printing makes cmd print what do returns, in the format asked for. What do returns is printed even when it comes
// with an error, since part of the work may have been done; nil prints nothing.
func printing[T any, R result[T]](cmd *cobra.Command, do func(*cobra.Command, []string) (R, error)) *cobra.Command {
	format := cmd.Flags().StringP("format", "f", formatText,
		"output format: text, json, or help for the fields of the JSON")
	checkArgs := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if *format == formatHelp || checkArgs == nil {
			return nil
		}
		return checkArgs(cmd, args)
	}
	completeFormat(cmd, formatText, formatJSON, formatHelp)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		out := cmd.OutOrStdout()
		if err := checkFormat(cmd, *format, formatText, formatJSON, formatHelp); err != nil {
			return err
		}
		if *format == formatHelp {
			return writeSchema[T](out)
		}
		value, err := do(cmd, args)
		if value == nil {
			return err
		}
		if *format == formatJSON {
			return errors.Join(err, writeJSON(out, value))
		}
		return errors.Join(err, value.writeText(out))
	}
	return cmd
}

func checkFormat(cmd *cobra.Command, format string, known ...string) error {
	if slices.Contains(known, format) {
		return nil
	}
	return usageError{cmd.CommandPath(), fmt.Errorf("unknown format %q: %s are known", format, strings.Join(known, ", "))}
}

func completeFormat(cmd *cobra.Command, formats ...string) { completeFlag(cmd, "format", formats...) }

// completeFlag offers the values that a flag knows.
func completeFlag(cmd *cobra.Command, flag string, values ...string) {
	complete := cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // the flag was defined by the caller: only a mistake in the tree gets here
	}
}

func writeJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// writeSchema prints the shape of T's JSON: each field with its type, a list as its one element.
func writeSchema[T any](w io.Writer) error {
	_, err := fmt.Fprintln(w, schemaOf(reflect.TypeFor[T](), ""))
	return err
}

func schemaOf(t reflect.Type, indent string) string {
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem(), indent) + " or null"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "base64 text or null"
		}
		return "[" + schemaOf(t.Elem(), indent) + "]"
	case reflect.Map:
		return "{ " + schemaOf(t.Key(), indent) + ": " + schemaOf(t.Elem(), indent) + " }"
	case reflect.Struct:
		var b strings.Builder
		b.WriteString("{\n")
		for _, field := range reflect.VisibleFields(t) {
			tag, tagged := field.Tag.Lookup("json")
			if field.Anonymous || !tagged {
				continue
			}
			name, _, _ := strings.Cut(tag, ",")
			fmt.Fprintf(&b, "%s  %q: %s\n", indent, name, schemaOf(field.Type, indent+"  "))
		}
		return b.String() + indent + "}"
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "number"
	}
	return "integer"
}

// table prints rows under a header, columns aligned, one row a line.
func table(w io.Writer, header []string, rows [][]string) error {
	tabs := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tabs, strings.Join(header, "\t"))
	for _, row := range rows {
		fmt.Fprintln(tabs, strings.Join(row, "\t"))
	}
	return tabs.Flush()
}

// byteSize prints a number of bytes for people.
func byteSize(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, prefix := float64(n)/unit, 0
	for value >= unit && prefix < len("KMGTPE")-1 {
		value /= unit
		prefix++
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTPE"[prefix])
}

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// streams are the process's three, handed in so that tests have their own.
type streams struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once, should the clean end take too long
	status := run(ctx, os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr})
	os.Exit(status)
}

// run executes one command line and returns the exit status.
func run(ctx context.Context, args []string, std streams) int {
	root := rootCommand()
	root.SetArgs(args)
	root.SetIn(std.in)
	root.SetOut(std.out)
	root.SetErr(std.err)
	err := root.ExecuteContext(ctx)
	if line := errorLine(ctx, err); line != "" {
		name := "firn:"
		if hasColours(std.err) {
			name = colourError + name + colourEnd
		}
		fmt.Fprintf(std.err, "%s %s\n", name, line)
	}
	return exitStatus(err)
}

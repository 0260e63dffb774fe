//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/firnlog/firn/integration/bench/replay"
)

// assistCommand is the argument by which this program, started once more, does what a row needs besides its brokers
// and what it measures, on the client's processor: what is timed must not wait for it in a scheduler of Go's.
const assistCommand = "assist"

// assistance is what it is told as JSON: one of the two.
type assistance struct {
	SlowStore string        // address of the store to stand before; it says at which address it does
	Fetch     *replay.Fetch // to be done until its input ends
}

// assistant is such a process.
type assistant struct {
	cmd      *exec.Cmd
	input    io.WriteCloser
	says     string // its first line, without the end
	messages bytes.Buffer
}

// assist starts one, and returns when it says that it is at work. The context's end kills it. Aside it has the lowest
// priority: what is timed does not wait for it in the system's scheduler either.
func assist(ctx context.Context, aside bool, work assistance) (*assistant, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{program, assistCommand}
	if aside {
		args = append([]string{"nice", "-n", "19"}, args...)
	}
	a := &assistant{cmd: exec.CommandContext(ctx, args[0], args[1:]...)}
	a.cmd.Stderr = &a.messages
	output, err := a.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if a.input, err = a.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := a.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start what goes on beside: %w", err)
	}
	err = json.NewEncoder(a.input).Encode(work)
	if err == nil {
		a.says, err = bufio.NewReader(output).ReadString('\n')
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("what goes on beside says nothing: %w", err), a.stop())
	}
	a.says = a.says[:len(a.says)-1]
	return a, nil
}

// stop ends it and waits for that.
func (a *assistant) stop() error {
	_ = a.input.Close() // it may have ended
	if err := a.cmd.Wait(); err != nil {
		return fmt.Errorf("what goes on beside: %w: %s", err, a.messages.String())
	}
	return nil
}

// runAssistant is the other side of assist.
func runAssistant(ctx context.Context, input io.Reader, output io.Writer) error {
	reader := bufio.NewReader(input)
	line, err := reader.ReadBytes('\n')
	if err != nil {
		return err
	}
	var work assistance
	if err := json.Unmarshal(line, &work); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = reader.WriteTo(io.Discard) // ends with the input, or with the process
		cancel()
	}()
	if work.Fetch != nil {
		fmt.Fprintln(output, "reading")
		_, err := work.Fetch.Run(ctx)
		return err
	}
	store, err := newSlowStore(ctx, work.SlowStore)
	if err != nil {
		return err
	}
	fmt.Fprintln(output, store.address)
	<-ctx.Done()
	return store.close()
}

// fetchBeside reads until the context ends.
func fetchBeside(ctx context.Context, fetch replay.Fetch) error {
	reading, err := assist(context.WithoutCancel(ctx), true, assistance{Fetch: &fetch})
	if err != nil {
		return err
	}
	<-ctx.Done()
	return reading.stop()
}

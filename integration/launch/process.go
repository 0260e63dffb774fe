package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Broker is a broker that runs.
type Broker struct {
	Name    string
	Address string // HOST:PORT of its Kafka listener
	HTTP    string // HOST:PORT of firn's HTTP listener
	Dir     string // with all its data
	PID     int

	process *os.Process
	log     string        // file
	done    chan struct{} // closed when it has ended
	status  string
}

const (
	// startTimeout bounds a start, with ten thousand partitions after a kill on a machine that does other things too.
	startTimeout = 10 * time.Minute
	// stopTimeout bounds a clean stop; then the process is killed.
	stopTimeout = 2 * time.Minute
	// askPause is between two questions whether a program serves that cannot tell.
	askPause = 5 * time.Millisecond
)

// AnyCPU leaves a program where the one is that starts it.
const AnyCPU = -1

// command is what is to be run.
type command struct {
	name string
	dir  string // for its data and its log
	cpu  int    // the only processor that it may use, or AnyCPU
	nice bool   // it has the lowest priority
	args []string
	env  []string
}

// start runs a command until Stop or Kill. Its output goes to a file in its folder.
func (c command) start() (*Broker, error) {
	output, err := os.Create(filepath.Join(c.dir, c.name+".out"))
	if err != nil {
		return nil, err
	}
	defer output.Close()
	args := c.args
	if c.cpu != AnyCPU {
		args = append([]string{"taskset", "--cpu-list", strconv.Itoa(c.cpu)}, args...)
	}
	if c.nice {
		args = append([]string{"nice", "-n", "19"}, args...)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Env = output, output, append(os.Environ(), c.env...)
	// A signal at the terminal is for whoever started the broker, who then stops it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	b := &Broker{
		Name: c.name, Dir: c.dir, PID: cmd.Process.Pid, process: cmd.Process, log: output.Name(), done: make(chan struct{}),
	}
	go func() {
		defer close(b.done)
		_ = cmd.Wait()
		b.status = cmd.ProcessState.String()
	}()
	return b, nil
}

// await asks until the answer is yes.
func (b *Broker) await(ctx context.Context, serves func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	again := time.NewTicker(askPause)
	defer again.Stop()
	for !serves(ctx) {
		select {
		case <-again.C:
		case <-b.done:
			return fmt.Errorf("%s has ended (%s):\n%s", b.Name, b.status, b.Tail())
		case <-ctx.Done():
			b.Kill()
			return fmt.Errorf("%s does not serve: %w\n%s", b.Name, ctx.Err(), b.Tail())
		}
	}
	return nil
}

// Stop ends the broker cleanly, which takes what it takes.
func (b *Broker) Stop() error {
	if err := b.process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	deadline := time.NewTimer(stopTimeout)
	defer deadline.Stop()
	select {
	case <-b.done:
		return nil
	case <-deadline.C:
		b.Kill()
		return fmt.Errorf("%s did not stop within %v and was killed", b.Name, stopTimeout)
	}
}

// Kill ends the broker with SIGKILL.
func (b *Broker) Kill() {
	_ = b.process.Kill()
	<-b.done
}

// Done is closed when the broker has ended.
func (b *Broker) Done() <-chan struct{} { return b.done }

// Tail is the end of what the broker has printed.
func (b *Broker) Tail() string {
	text, err := os.ReadFile(b.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	const shown = 20
	return strings.Join(lines[max(0, len(lines)-shown):], "\n")
}

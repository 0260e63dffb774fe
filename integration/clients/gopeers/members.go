package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	// sessionTimeout is when a member is taken for dead that says nothing.
	sessionTimeout = 6 * time.Second
	// heartbeatInterval is how soon a member learns that its group has changed.
	heartbeatInterval = 500 * time.Millisecond
)

// join is what a member joins. Its name is its client id.
type join struct{ member, group, topic, protocol string }

// transactions each write a value to a partition, and commit for a group the offset behind the next record of partition
// 0 of a source. Before each of them is one that is aborted.
type transactions struct {
	ID        string   `json:"id"`
	Topic     string   `json:"topic"`
	Partition int32    `json:"partition"`
	Source    string   `json:"source"`
	Group     string   `json:"group"`
	Values    []string `json:"values"`
}

// heard is what a member tells.
type heard struct {
	Member    string `json:"member"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Value     string `json:"value"`
	Left      bool   `json:"left,omitempty"`
}

// members has members of groups join and leave as the lines of stdin say.
func members(lib library, stdin io.Reader, stdout io.Writer) error {
	var mu sync.Mutex // guards stdout
	tell := func(h heard) {
		mu.Lock()
		defer mu.Unlock()
		if err := json.NewEncoder(stdout).Encode(h); err != nil {
			fail(err)
		}
	}
	leaves := map[string]func(){}
	lines := bufio.NewScanner(stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) == 5 && words[0] == "join":
			leaves[words[1]] = begin(lib, join{words[1], words[2], words[3], words[4]}, tell)
		case len(words) == 2 && words[0] == "leave" && leaves[words[1]] != nil:
			leaves[words[1]]()
			tell(heard{Member: words[1], Left: true})
		default:
			return fmt.Errorf("%q is neither join MEMBER GROUP TOPIC PROTOCOL nor leave MEMBER", lines.Text())
		}
	}
	return lines.Err()
}

// begin runs a member and returns what has it leave.
func begin(lib library, j join, tell func(heard)) (leave func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := lib.member(ctx, j, func(partition int32, offset int64, value []byte) {
			tell(heard{Member: j.member, Partition: partition, Offset: offset, Value: string(value)})
		})
		if err != nil {
			fail(fmt.Errorf("%s: %w", j.member, err))
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "gopeers:", err)
	os.Exit(1)
}

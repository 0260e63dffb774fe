//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/firnlog/firn/integration/bench/report"
	"github.com/firnlog/firn/integration/launch"
)

// machine describes what is measured on, and the versions.
func machine(ctx context.Context, o options) (report.Machine, error) {
	m := report.Machine{Go: runtime.Version(), FileSystem: fileSystem(o.scratch)}
	var err error
	if m.Kafka, err = launch.KafkaVersion(o.kafkaLib); err != nil {
		return m, err
	}
	m.Processor = fieldOf("/proc/cpuinfo", "model name")
	m.Processors = processors()
	if kilobytes, err := strconv.Atoi(strings.TrimSuffix(fieldOf("/proc/meminfo", "MemTotal"), " kB")); err == nil {
		m.MemoryGB = (kilobytes + 1<<19) >> 20
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return m, err
	}
	m.Kernel = unix.ByteSliceToString(name.Release[:])
	output, err := exec.CommandContext(ctx, "java", "-version").CombinedOutput()
	if err != nil {
		return m, fmt.Errorf("java: %w", err)
	}
	if found := regexp.MustCompile(`version "([^"]+)"`).FindSubmatch(output); found != nil {
		m.Java = string(found[1])
	}
	return m, nil
}

// fieldOf is the first value of a name in a file of lines "name : value".
func fieldOf(file, name string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// processors are those of the machine, not those that this process is pinned to.
func processors() int {
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.NumCPU()
	}
	defer file.Close()
	count := 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "processor") {
			count++
		}
	}
	return count
}

// fileSystem names the kind that a folder lies on.
func fileSystem(dir string) string {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return "an unknown file system"
	}
	names := map[int64]string{
		unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs",
		unix.TMPFS_MAGIC: "tmpfs", unix.OVERLAYFS_SUPER_MAGIC: "overlayfs",
	}
	if name, ok := names[stat.Type]; ok {
		return name
	}
	return fmt.Sprintf("file system %#x", stat.Type)
}

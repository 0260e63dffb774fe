package sampler

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Machine is what all processors together have done since the start.
type Machine struct {
	Busy, Total time.Duration // Total counts each processor
}

// OfMachine reads the numbers of the machine.
func OfMachine() (Machine, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Machine{}, err
	}
	machine, err := parseMachine(string(text))
	if err != nil {
		return Machine{}, fmt.Errorf("/proc/stat: %w", err)
	}
	return machine, nil
}

func parseMachine(text string) (Machine, error) {
	first, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(first)
	const counted = 8 // user, nice, system, idle, iowait, irq, softirq, steal; what follows is counted in the first two
	if len(fields) <= counted || fields[0] != "cpu" {
		return Machine{}, errors.New("it does not begin with the sum of all processors")
	}
	var m Machine
	for i, field := range fields[1 : counted+1] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return Machine{}, err
		}
		time := time.Duration(ticks) * time.Second / ticksPerSecond
		m.Total += time
		if i != 3 && i != 4 { // idle, and idle while the disk works
			m.Busy += time
		}
	}
	return m, nil
}

// Foreign is the share, from 0 to 1, of the machine's processor time between two readings that was used by others than
// those whose use is given.
func (m Machine) Foreign(before Machine, own time.Duration) float64 {
	total := m.Total - before.Total
	if total <= 0 {
		return 0
	}
	return max(float64(m.Busy-before.Busy-own)/float64(total), 0)
}

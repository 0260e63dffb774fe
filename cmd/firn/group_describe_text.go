package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

func (d *groupDescriptions) writeText(w io.Writer) error {
	for i := range d.Groups {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := d.Groups[i].writeText(w); err != nil {
			return err
		}
	}
	return nil
}

func (g *groupDescription) writeText(w io.Writer) error {
	fmt.Fprintf(w, "group %s: %s, %s, assignor %s, coordinator %d, %s, lag %d\n", g.Group, g.Type, g.State,
		orDash(g.Assignor), g.Coordinator, counted(len(g.Members), "member"), g.Lag)
	if len(g.Members) > 0 {
		fmt.Fprintln(w)
		if err := g.writeMembers(w); err != nil {
			return err
		}
	}
	if len(g.Partitions) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return g.writePartitions(w)
}

func (g *groupDescription) writeMembers(w io.Writer) error {
	rows := make([][]string, 0, len(g.Members))
	for _, member := range g.Members {
		instance := "-"
		if member.Instance != nil {
			instance = *member.Instance
		}
		rows = append(rows, []string{member.Member, instance, orDash(member.ClientID), member.Host,
			orDash(assignmentText(member.Assignment))})
	}
	return table(w, []string{"MEMBER", "INSTANCE", "CLIENT", "HOST", "ASSIGNMENT"}, rows)
}

// assignmentText is an assignment on one line, as group seek and offset-delete take it.
func assignmentText(assignment map[string][]int32) string {
	var parts []string
	for _, topic := range sortedKeys(assignment) {
		parts = append(parts, topic+":"+joined(slices.Sorted(slices.Values(assignment[topic]))))
	}
	return strings.Join(parts, " ")
}

func (g *groupDescription) writePartitions(w io.Writer) error {
	header := []string{"TOPIC", "PARTITION", "COMMITTED", "START", "END", "LAG", "MEMBER"}
	rows := make([][]string, 0, len(g.Partitions))
	for _, p := range g.Partitions {
		member := "-"
		if p.Member != nil {
			member = *p.Member
		}
		rows = append(rows, []string{p.Topic, strconv.Itoa(int(p.Partition)), known(p.Committed), known(p.Start),
			known(p.End), known(p.Lag), member})
	}
	return table(w, header, rows)
}

package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// sourceNames are the places a setting comes from, in the words of who set it.
func sourceName(source string) string {
	switch source {
	case "DYNAMIC_TOPIC_CONFIG":
		return "topic"
	case "DYNAMIC_BROKER_CONFIG":
		return "broker, at run time"
	case "DYNAMIC_DEFAULT_BROKER_CONFIG":
		return "cluster, at run time"
	case "STATIC_BROKER_CONFIG":
		return "broker"
	case defaultSource:
		return "default"
	}
	return strings.ToLower(strings.ReplaceAll(source, "_", " "))
}

const defaultSource = "DEFAULT_CONFIG"

func (d *topicDescriptions) writeText(w io.Writer) error {
	for i := range d.Topics {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := d.Topics[i].writeText(w, d.showDefaults); err != nil {
			return err
		}
	}
	return nil
}

func (t *topicDescription) writeText(w io.Writer, showDefaults bool) error {
	fmt.Fprintf(w, "topic %s, id %s: %s of %s each\n", t.Topic, t.ID,
		counted(len(t.Partitions), "partition"), counted(t.Replicas, "replica"))
	for _, note := range t.Notes {
		fmt.Fprintf(w, "note: %s\n", note)
	}
	fmt.Fprintln(w)
	if err := t.writeConfigs(w, showDefaults); err != nil {
		return err
	}
	fmt.Fprintln(w)
	return t.writePartitions(w)
}

func (t *topicDescription) writeConfigs(w io.Writer, showDefaults bool) error {
	var rows [][]string
	for _, config := range t.Configs {
		if config.Source == defaultSource && !showDefaults {
			continue
		}
		value := "(hidden)"
		if config.Value != nil {
			value = *config.Value
		}
		rows = append(rows, []string{config.Name, value, sourceName(config.Source)})
	}
	if len(rows) > 0 {
		if err := table(w, []string{"SETTING", "VALUE", "SOURCE"}, rows); err != nil {
			return err
		}
	}
	if hidden := len(t.Configs) - len(rows); hidden > 0 {
		fmt.Fprintf(w, "(%s at the default: --all shows them)\n", counted(hidden, "setting"))
	}
	return nil
}

func (t *topicDescription) writePartitions(w io.Writer) error {
	header := []string{"PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "START", "LOCAL START", "TIERED END", "END"}
	rows := make([][]string, 0, len(t.Partitions))
	broken := slices.ContainsFunc(t.Partitions, func(p partitionDescription) bool { return p.Error != "" })
	if broken {
		header = append(header, "ERROR")
	}
	for _, p := range t.Partitions {
		leader := "none"
		if p.Leader >= 0 {
			leader = strconv.Itoa(int(p.Leader))
		}
		row := []string{strconv.Itoa(int(p.Partition)), leader, strconv.Itoa(int(p.LeaderEpoch)),
			joined(p.Replicas), joined(p.ISR), known(p.Start), known(p.LocalStart), known(p.TieredEnd), known(p.End)}
		if broken {
			row = append(row, p.Error)
		}
		rows = append(rows, row)
	}
	return table(w, header, rows)
}

// counted is a number with its noun: 1 partition, 2 partitions.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

func joined(ids []int32) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strconv.Itoa(int(id))
	}
	return strings.Join(texts, ",")
}

func known(offset *int64) string {
	if offset == nil {
		return "-"
	}
	return strconv.FormatInt(*offset, 10)
}

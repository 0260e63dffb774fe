package main

import (
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/firnlog/firn/broker/admin/view"
)

// tierPins is what `tier pins` found.
type tierPins view.Pins

func tierPinsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pins",
		Short: "List what bulk reads keep from being deleted, and until when",
		Long: "A command that reads from the bucket pins the objects, and ends the pin when it is done. One that was\n" +
			"killed leaves it until the lease is over: --end ends it now.",
		Args: takes(cobra.NoArgs),
	}
	server := addHTTPFlag(cmd)
	end := cmd.Flags().String("end", "", "end the pin with this `ID`, and show it")
	return printing(cmd, func(cmd *cobra.Command, _ []string) (*tierPins, error) {
		if *end != "" {
			var ended view.PinStatus
			err := server.delete(cmd.Context(), view.PathPins+"/"+url.PathEscape(*end), &ended)
			if err != nil {
				return nil, err
			}
			return &tierPins{Pins: []view.PinStatus{ended}}, nil
		}
		var pins tierPins
		if err := server.get(cmd.Context(), view.PathPins, &pins); err != nil {
			return nil, err
		}
		return &pins, nil
	})
}

func (p *tierPins) writeText(w io.Writer) error {
	rows := make([][]string, 0, len(p.Pins))
	for _, pin := range p.Pins {
		partitions := make([]string, len(pin.Partitions))
		for i, part := range pin.Partitions {
			partitions[i] = strconv.Itoa(int(part.Partition))
		}
		left := time.Duration(pin.LeaseMs) * time.Millisecond
		rows = append(rows, []string{pin.ID, pin.Topic, strings.Join(partitions, ","), left.Truncate(time.Second).String()})
	}
	return table(w, []string{"ID", "TOPIC", "PARTITIONS", "LEASE LEFT"}, rows)
}

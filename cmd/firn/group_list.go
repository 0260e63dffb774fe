package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"
)

// groupList is what `group list` found, by name.
type groupList struct {
	Groups []listedGroup `json:"groups"`
}

type listedGroup struct {
	Group       string `json:"group"`
	Type        string `json:"type"`     // classic, consumer, …; empty where the cluster does not say
	Protocol    string `json:"protocol"` // consumer, connect, …; empty for a group that only has offsets
	State       string `json:"state"`
	Coordinator int32  `json:"coordinator"`
}

func groupListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the groups of the cluster",
		Args:  takes(cobra.NoArgs),
	}
	brokers := addBrokerFlag(cmd)
	states := cmd.Flags().StringSlice("state", nil, "list only groups in one of these states: Empty, Stable, …")
	types := cmd.Flags().StringSlice("type", nil, "list only groups of one of these types: classic, consumer, …")
	completeFlag(cmd, "state", "Empty", "Stable", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling",
		"Dead")
	completeFlag(cmd, "type", typeClassic, typeConsumer)
	return printing(cmd, func(cmd *cobra.Command, _ []string) (*groupList, error) {
		client, err := brokers.connect(cmd.Context())
		if err != nil {
			return nil, err
		}
		defer client.Close()
		listed, err := client.admin.ListGroupsByType(client.ctx, *types, *states...)
		if err != nil {
			return nil, fmt.Errorf("list groups: %w", brokerFailure(err))
		}
		list := &groupList{Groups: []listedGroup{}}
		for _, group := range listed.Sorted() {
			list.Groups = append(list.Groups, listedGroup{Group: group.Group, Type: group.GroupType,
				Protocol: group.ProtocolType, State: group.State, Coordinator: group.Coordinator})
		}
		return list, nil
	})
}

func (l *groupList) writeText(w io.Writer) error {
	rows := make([][]string, 0, len(l.Groups))
	for _, group := range l.Groups {
		rows = append(rows, []string{group.Group, orDash(group.Type), orDash(group.Protocol), orDash(group.State),
			strconv.Itoa(int(group.Coordinator))})
	}
	return table(w, []string{"GROUP", "TYPE", "PROTOCOL", "STATE", "COORDINATOR"}, rows)
}

// orDash prints what is not there, so that columns stay countable.
func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

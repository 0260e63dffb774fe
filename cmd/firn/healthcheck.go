package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/firnlog/firn/cmd/firn/httpapi"
)

// health is what `healthcheck` found; what is not ready is an error.
type health struct {
	Ready bool `json:"ready"`
}

func healthcheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "healthcheck",
		Short: "Tell whether a node serves clients",
		Long: "Asks a node's /readyz and exits with 0 if it serves clients, else with 1 and the reason. It is the health\n" +
			"check of a container that has neither a shell nor curl.",
		Args: takes(cobra.NoArgs),
	}
	server := addHTTPFlag(cmd)
	return printing(cmd, func(cmd *cobra.Command, _ []string) (*health, error) {
		if err := httpapi.Ready(cmd.Context(), server.address); err != nil {
			return nil, err
		}
		return &health{Ready: true}, nil
	})
}

func (h *health) writeText(w io.Writer) error {
	_, err := fmt.Fprintln(w, "ready")
	return err
}

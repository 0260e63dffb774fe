package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionInfo says which build this is.
type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func versionCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "Print the version of this binary", Args: takes(cobra.NoArgs)}
	return printing(cmd, func(*cobra.Command, []string) (*versionInfo, error) {
		info := currentVersion()
		return &info, nil
	})
}

// currentVersion reads what the Go linker noted about the build.
func currentVersion() versionInfo {
	info := versionInfo{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	if build.Main.Version != "" {
		info.Version = build.Main.Version
	}
	for _, setting := range build.Settings {
		switch setting.Key {
		case "vcs.revision":
			info.Revision = setting.Value
		case "vcs.modified":
			info.Modified = setting.Value == "true"
		}
	}
	return info
}

func (v *versionInfo) writeText(w io.Writer) error {
	text := "firn " + v.Version
	if v.Revision != "" {
		text += " (" + v.Revision
		if v.Modified {
			text += ", modified"
		}
		text += ")"
	}
	_, err := fmt.Fprintf(w, "%s %s %s\n", text, v.Go, v.Platform)
	return err
}

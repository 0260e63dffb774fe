package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	node "github.com/firnlog/firn"
	"github.com/firnlog/firn/internal/config"
)

// nodeFlags are where the settings of a node come from, the same for every command that reads them.
type nodeFlags struct {
	file    string
	set     []string
	dataDir string
}

func addNodeFlags(cmd *cobra.Command) *nodeFlags {
	flags := &nodeFlags{}
	cmd.Flags().StringVarP(&flags.file, "config", "c", "", "properties `FILE` with Kafka's and firn's settings")
	cmd.Flags().StringArrayVar(&flags.set, "set", nil, "one setting, `KEY=VALUE`; may be repeated")
	cmd.Flags().StringVar(&flags.dataDir, "data-dir", "",
		"`DIR` under which the node keeps everything (default ./firn-data)")
	return flags
}

// load reads the file, the environment and the flags.
func (f *nodeFlags) load() (node.Config, error) {
	sources := node.Sources{Environ: os.Environ(), Set: f.set, DataDir: f.dataDir}
	if f.file != "" {
		if err := sources.ReadFile(f.file); err != nil {
			return node.Config{}, err
		}
	}
	return node.LoadConfig(sources)
}

// configSetting is one setting as `firn config` shows it.
type configSetting struct {
	Name          string  `json:"name"`
	Value         *string `json:"value"`
	Origin        string  `json:"origin"`
	Effect        string  `json:"effect"`
	Type          string  `json:"type"`
	Default       *string `json:"default"`
	KafkaDefault  *string `json:"kafka_default"`
	Reason        string  `json:"reason"`
	Documentation string  `json:"documentation"`
}

// configNotice is something that a start with this configuration would say.
type configNotice struct {
	Warning bool   `json:"warning"`
	Text    string `json:"text"`
}

// configResult is a node's configuration.
type configResult struct {
	Settings []configSetting `json:"settings"`
	Notices  []configNotice  `json:"notices"`
	hidden   int             // settings that were left out
}

func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the settings a node would start with, and where each comes from",
		Long: "Shows the settings that `firn serve` would start with, given the same file, environment and flags: each\n" +
			"value, where it was set and what it does. A setting that is wrong is an error, as it would be at start.\n" +
			"Without --all, what nobody has set and what does nothing yet is left out.",
		Args: takes(cobra.NoArgs),
	}
	flags := addNodeFlags(cmd)
	all := cmd.Flags().Bool("all", false, "show every setting there is")
	return printing(cmd, func(*cobra.Command, []string) (*configResult, error) {
		cfg, err := flags.load()
		if err != nil {
			return nil, err
		}
		return describeConfig(cfg, *all), nil
	})
}

func describeConfig(cfg node.Config, all bool) *configResult {
	shown := &configResult{Settings: []configSetting{}, Notices: []configNotice{}}
	for _, view := range cfg.Settings.All() {
		if view.Origin == node.OriginDefault && view.Effect != config.Acts && !all {
			shown.hidden++
			continue
		}
		setting := configSetting{
			Name: view.Name, Value: view.Value, Origin: view.Origin, Effect: view.Effect.String(), Type: view.Type.String(),
			KafkaDefault: view.KafkaDefault, Reason: view.Reason, Documentation: view.Doc,
		}
		if view.HasDefault {
			setting.Default = &view.Default
		}
		shown.Settings = append(shown.Settings, setting)
	}
	for _, notice := range cfg.Settings.Notices() {
		shown.Notices = append(shown.Notices, configNotice{notice.Warning, notice.Text})
	}
	return shown
}

func (r *configResult) writeText(w io.Writer) error {
	rows := make([][]string, 0, len(r.Settings))
	for _, setting := range r.Settings {
		value := "-"
		if setting.Value != nil {
			value = *setting.Value
		}
		rows = append(rows, []string{setting.Name, oneLine(value), setting.Origin, setting.Effect})
	}
	if err := table(w, []string{"SETTING", "VALUE", "ORIGIN", "EFFECT"}, rows); err != nil {
		return err
	}
	var b strings.Builder
	for _, notice := range r.Notices {
		kind := "note"
		if notice.Warning {
			kind = "warning"
		}
		fmt.Fprintf(&b, "\n%s: %s", kind, notice.Text)
	}
	if r.hidden > 0 {
		fmt.Fprintf(&b, "\n%d settings that nobody has set and that do nothing here are left out; --all shows them", r.hidden)
	}
	_, err := fmt.Fprintln(w, b.String())
	return err
}

// oneLine keeps a value in its row.
func oneLine(value string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`, "\r", `\r`).Replace(value)
}

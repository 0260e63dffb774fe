package compose

import (
	"encoding/json"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// measured is a metric of testdata/metrics.golden.
type measured struct {
	kind   string // "" is not known, since there was no series
	labels []string
}

func readMetrics(t *testing.T) map[string]measured {
	t.Helper()
	metrics := map[string]measured{}
	for line := range strings.Lines(string(readFile(t, filepath.Join(root, "testdata", "metrics.golden")))) {
		line, labels, _ := strings.Cut(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(line), "}")), "{")
		name, kind, _ := strings.Cut(strings.TrimSpace(line), " ")
		known := metrics[name]
		known.kind = kind
		for label := range strings.SplitSeq(labels, ",") {
			label, _, _ = strings.Cut(label, "=")
			known.labels = append(known.labels, label)
		}
		metrics[name] = known
	}
	if len(metrics) < 50 {
		t.Fatalf("%d metrics in the golden list", len(metrics))
	}
	return metrics
}

var (
	nameInQuery = regexp.MustCompile(`\b(?:kafka|firn|process|go)_\w+|\bup\b`)
	quoted      = regexp.MustCompile(`"[^"]*"`)
	// labelsInQuery are those that are matched, and those that sums are kept apart by.
	matchedInQuery = regexp.MustCompile(`(\w+)\s*(?:=~|!=|!~|=)\s*"`)
	groupsInQuery  = regexp.MustCompile(`\b(?:by|on|without)\s*\(([^)]*)\)`)
)

// fromElsewhere are metrics that Prometheus and its client library make.
var fromElsewhere = []string{
	"up", "process_cpu_seconds_total", "process_resident_memory_bytes", "go_memstats_heap_inuse_bytes",
}

// problems tells which metrics and labels of a query firn does not have.
func problems(metrics map[string]measured, query string) (found []string) {
	labels := []string{"instance", "job", "le"}
	names := nameInQuery.FindAllString(quoted.ReplaceAllString(query, `""`), -1)
	if len(names) == 0 {
		found = append(found, "no metric")
	}
	for _, name := range names {
		metric, known := lookUp(metrics, name)
		if !known {
			found = append(found, "no metric "+name)
		}
		labels = append(labels, metric.labels...)
	}
	var used []string
	for _, match := range matchedInQuery.FindAllStringSubmatch(query, -1) {
		used = append(used, match[1])
	}
	for _, match := range groupsInQuery.FindAllStringSubmatch(query, -1) {
		used = append(used, strings.Split(match[1], ",")...)
	}
	for _, label := range used {
		if !slices.Contains(labels, strings.TrimSpace(label)) {
			found = append(found, "no label "+label)
		}
	}
	for open, shut := range map[string]string{"(": ")", "{": "}", "[": "]"} {
		if strings.Count(query, open) != strings.Count(query, shut) {
			found = append(found, open+" is not closed")
		}
	}
	return found
}

// lookUp finds a metric by the name of its series.
func lookUp(metrics map[string]measured, name string) (metric measured, known bool) {
	if metric, known = metrics[name]; known {
		return metric, metric.kind != "histogram"
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, cut := strings.CutSuffix(name, suffix); cut {
			metric = metrics[base]
			return metric, metric.kind == "histogram" || metric.kind == "summary" && suffix != "_bucket"
		}
	}
	return metric, slices.Contains(fromElsewhere, name)
}

func checkQuery(t *testing.T, where, query string) {
	t.Helper()
	for _, problem := range problems(readMetrics(t), query) {
		t.Errorf("%s: %s in %s", where, problem, query)
	}
}

func TestQueriesAreJudged(t *testing.T) {
	metrics := readMetrics(t)
	for query, right := range map[string]bool{
		`up{job="firn"} == 0`: true,
		`sum by (operation) (rate(firn_objectstore_requests_total{instance="a"}[5m]))`:       true,
		`histogram_quantile(0.9, sum by (le) (rate(firn_storage_flush_seconds_bucket[5m])))`: true,
		`a < 2 * on(instance) group_left() firn_storage_reserve_bytes`:                       true,
		`firn_storage_flush_seconds`:                      false,
		`rate(firn_storage_flushes_total[5m])`:            false,
		`sum by (topic) (firn_storage_offline_logs)`:      false,
		`firn_objectstore_requests_total{status="404"}`:   false,
		`rate(firn_objectstore_requests_total_sum[5m])`:   false,
		`rate(firn_objectstore_requests_total[5m]`:        false,
		`kafka_server_kafkaserver_brokerstate{x="kafka"}`: false,
		`sum(1)`: false,
	} {
		if found := problems(metrics, query); (found == nil) != right {
			t.Errorf("%s: %q", query, found)
		}
	}
}

// dashboard is what of Grafana's format counts here.
type dashboard struct {
	UID        string `json:"uid"`
	Templating struct {
		List []struct {
			Name       string     `json:"name"`
			Query      string     `json:"query"`
			Datasource datasource `json:"datasource"`
		} `json:"list"`
	} `json:"templating"`
	Panels []struct {
		ID         int        `json:"id"`
		Type       string     `json:"type"`
		Title      string     `json:"title"`
		Datasource datasource `json:"datasource"`
		Position   struct {
			H, W, X, Y int
		} `json:"gridPos"`
		Targets []struct {
			Expression string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`
}

type datasource struct{ Type, UID string }

func TestTheDashboardShowsWhatFirnMeasures(t *testing.T) {
	var shown dashboard
	if err := json.Unmarshal(readFile(t, filepath.Join("grafana", "dashboards", "firn.json")), &shown); err != nil {
		t.Fatal(err)
	}
	source := datasource{Type: "prometheus", UID: readDatasource(t).UID}
	for _, variable := range shown.Templating.List {
		checkQuery(t, "variable "+variable.Name, variable.Query)
		if variable.Datasource != source {
			t.Errorf("variable %s asks %+v", variable.Name, variable.Datasource)
		}
	}
	panels, ids, places := 0, map[int]bool{}, map[[2]int]string{}
	for _, panel := range shown.Panels {
		if ids[panel.ID] {
			t.Errorf("panel %d stands twice", panel.ID)
		}
		ids[panel.ID] = true
		for x := panel.Position.X; x < panel.Position.X+panel.Position.W; x++ {
			for y := panel.Position.Y; y < panel.Position.Y+panel.Position.H; y++ {
				if other := places[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s does not fit beside %q", panel.Title, other)
				}
				places[[2]int{x, y}] = panel.Title
			}
		}
		if panel.Type == "row" {
			continue
		}
		panels++
		if panel.Datasource != source || len(panel.Targets) == 0 {
			t.Errorf("%s asks %+v %d questions", panel.Title, panel.Datasource, len(panel.Targets))
		}
		for _, target := range panel.Targets {
			checkQuery(t, panel.Title, target.Expression)
		}
	}
	if panels < 20 {
		t.Errorf("%d panels", panels)
	}
}

func TestAlertsAreAboutWhatFirnMeasures(t *testing.T) {
	var rules struct {
		Groups []struct {
			Name  string `yaml:"name"`
			Rules []struct {
				Alert       string            `yaml:"alert"`
				Expression  string            `yaml:"expr"`
				For         string            `yaml:"for"`
				Labels      map[string]string `yaml:"labels"`
				Annotations map[string]string `yaml:"annotations"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	decode(t, filepath.Join("prometheus", "alerts.yml"), &rules)
	seen := map[string]bool{}
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			checkQuery(t, rule.Alert, rule.Expression)
			if seen[rule.Alert] || rule.Annotations["summary"] == "" ||
				!slices.Contains([]string{"warning", "critical"}, rule.Labels["severity"]) {
				t.Errorf("alert %s: %+v", rule.Alert, rule)
			}
			seen[rule.Alert] = true
			if _, err := time.ParseDuration(rule.For); rule.For != "" && err != nil {
				t.Errorf("alert %s: %v", rule.Alert, err)
			}
		}
	}
	if len(seen) < 8 {
		t.Errorf("alerts: %v", seen)
	}
}

func TestPrometheusAsksTheNode(t *testing.T) {
	var read struct {
		Global struct {
			Scrape   string `yaml:"scrape_interval"`
			Evaluate string `yaml:"evaluation_interval"`
		} `yaml:"global"`
		RuleFiles []string `yaml:"rule_files"`
		Jobs      []struct {
			Name   string `yaml:"job_name"`
			Static []struct {
				Targets []string `yaml:"targets"`
			} `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	decode(t, filepath.Join("prometheus", "prometheus.yml"), &read)
	for _, file := range read.RuleFiles {
		if _, err := os.Stat(filepath.Join("prometheus", file)); err != nil {
			t.Error(err)
		}
	}
	if len(read.RuleFiles) != 1 || len(read.Jobs) != 1 || read.Jobs[0].Name != "firn" || len(read.Jobs[0].Static) != 1 {
		t.Fatalf("Prometheus has %+v to do", read)
	}
	_, port, err := net.SplitHostPort(nodeConfig(t).HTTPListener)
	if want := []string{"firn:" + port}; err != nil || !slices.Equal(read.Jobs[0].Static[0].Targets, want) {
		t.Errorf("Prometheus asks %v, want %v", read.Jobs[0].Static[0].Targets, want)
	}
	service := readProject(t).service(t, "prometheus")
	if !slices.Contains(service.Command, "--config.file="+mounted(t, "prometheus", "prometheus")+"/prometheus.yml") {
		t.Errorf("Prometheus is started with %v", service.Command)
	}
}

// mounted is where a folder of this package lies in a container.
func mounted(t *testing.T, name, folder string) string {
	t.Helper()
	for _, volume := range readProject(t).service(t, name).Volumes {
		if target, ok := strings.CutPrefix(volume, "./integration/compose/"+folder+":"); ok {
			return strings.TrimSuffix(target, ":ro")
		}
	}
	t.Fatalf("%s does not see %s", name, folder)
	return ""
}

type provisionedDatasource struct {
	Name    string `yaml:"name"`
	UID     string `yaml:"uid"`
	Type    string `yaml:"type"`
	Access  string `yaml:"access"`
	URL     string `yaml:"url"`
	Default bool   `yaml:"isDefault"`
}

func readDatasource(t *testing.T) provisionedDatasource {
	t.Helper()
	var read struct {
		Version int                     `yaml:"apiVersion"`
		Sources []provisionedDatasource `yaml:"datasources"`
	}
	decode(t, filepath.Join("grafana", "provisioning", "datasources", "prometheus.yml"), &read)
	if read.Version != 1 || len(read.Sources) != 1 {
		t.Fatalf("data sources: %+v", read)
	}
	return read.Sources[0]
}

func TestGrafanaFindsWhatIsProvisioned(t *testing.T) {
	source := readDatasource(t)
	address, err := url.Parse(source.URL)
	if err != nil || source.Type != "prometheus" || source.Access != "proxy" || !source.Default {
		t.Errorf("data source %+v: %v", source, err)
	}
	if !slices.Contains(readProject(t).service(t, address.Hostname()).Ports, "127.0.0.1:9090:"+address.Port()) {
		t.Errorf("nobody is at %s", address)
	}
	if at := mounted(t, "grafana", "grafana/provisioning"); at != "/etc/grafana/provisioning" {
		t.Errorf("Grafana looks in /etc/grafana/provisioning, not in %s", at)
	}
	var read struct {
		Version   int `yaml:"apiVersion"`
		Providers []struct {
			Name    string            `yaml:"name"`
			Type    string            `yaml:"type"`
			Updates bool              `yaml:"allowUiUpdates"`
			Options map[string]string `yaml:"options"`
		} `yaml:"providers"`
	}
	decode(t, filepath.Join("grafana", "provisioning", "dashboards", "firn.yml"), &read)
	folder := mounted(t, "grafana", "grafana/dashboards")
	if len(read.Providers) != 1 || read.Providers[0].Type != "file" || read.Providers[0].Options["path"] != folder {
		t.Errorf("dashboards are looked for by %+v and lie in %s", read.Providers, folder)
	}
	home := readProject(t).service(t, "grafana").Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
	if _, err := os.Stat(filepath.Join("grafana", "dashboards", path.Base(home))); err != nil || path.Dir(home) != folder {
		t.Errorf("the first page is %s: %v", home, err)
	}
}

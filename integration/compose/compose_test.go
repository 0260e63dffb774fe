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

	"go.uber.org/goleak"

	"github.com/firnlog/firn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pinned is an image that stays the same: with its registry, and a version that is more than a name.
var pinned = regexp.MustCompile(`^[a-z.]+/[a-z0-9/-]+:(v?\d+\.\d+[\w.-]*|RELEASE\.[\dTZ-]+)$`)

func TestImagesArePinned(t *testing.T) {
	for name, service := range readProject(t).Services {
		if service.Build != "" {
			if service.Image != "firn:local" {
				t.Errorf("%s is built here and called %s, as if it came from somewhere", name, service.Image)
			}
			continue
		}
		if !pinned.MatchString(service.Image) {
			t.Errorf("%s has the image %s", name, service.Image)
		}
	}
	if minio := readProject(t).service(t, "minio").Image; minio != "quay.io/minio/minio:RELEASE.2025-09-07T16-13-09Z" {
		t.Errorf("MinIO is %s, not the last image that its makers have put there", minio)
	}
	tools := string(readFile(t, filepath.Join(root, "integration", "tools", "go.mod")))
	version := regexp.MustCompile(`github.com/versity/versitygw (v\S+)`).FindStringSubmatch(tools)
	if image := readProject(t).service(t, "versitygw").Image; !strings.HasSuffix(image, ":"+version[1]) {
		t.Errorf("versitygw is %s here and %s in the tests", image, version[1])
	}
}

func TestServicesFitTogether(t *testing.T) {
	read := readProject(t)
	for name, service := range read.Services {
		if len(service.Healthcheck.Test) < 2 || service.Healthcheck.Test[0] != "CMD" || service.Healthcheck.Retries == 0 {
			t.Errorf("%s has the health check %q, which must not need a shell", name, service.Healthcheck.Test)
		}
		for _, text := range []string{service.Healthcheck.Interval, service.Healthcheck.Timeout} {
			if wait, err := time.ParseDuration(text); err != nil || wait > 10*time.Second {
				t.Errorf("%s: a health check every %s", name, text)
			}
		}
		for _, port := range service.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s is published at %s: there are no passwords", name, port)
			}
		}
		for _, volume := range service.Volumes {
			source, target, _ := strings.Cut(volume, ":")
			if _, named := read.Volumes[source]; named {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, source)); err != nil || !strings.HasSuffix(target, ":ro") {
				t.Errorf("%s: %s is neither a volume nor a file to be read: %v", name, volume, err)
			}
		}
		for network := range service.Networks {
			if read.Networks[network].Name == "" {
				t.Errorf("%s is in %s, which is no network", name, network)
			}
		}
	}
}

// TestOneStoreIsOnAtATime: whichever profile is chosen, there is one host called store.
func TestOneStoreIsOnAtATime(t *testing.T) {
	read := readProject(t)
	env := string(readFile(t, filepath.Join(root, ".env")))
	if !strings.Contains(env, "\nCOMPOSE_PROFILES=minio\n") {
		t.Errorf(".env does not choose the store: %q", env)
	}
	var stores []string
	for name, service := range read.Services {
		if len(service.Profiles) == 0 {
			if slices.Contains(service.Networks["firn"], "store") {
				t.Errorf("%s is a store whatever is chosen", name)
			}
			continue
		}
		stores = append(stores, name)
		if !slices.Equal(service.Profiles, []string{name}) || !slices.Equal(service.Networks["firn"], []string{"store"}) {
			t.Errorf("store %s has the profiles %v and the names %v", name, service.Profiles, service.Networks["firn"])
		}
	}
	slices.Sort(stores)
	if !slices.Equal(stores, []string{"minio", "seaweedfs", "versitygw"}) {
		t.Errorf("stores: %v", stores)
	}
}

func TestEveryStoreListensAndKnowsTheNode(t *testing.T) {
	read := readProject(t)
	node := read.service(t, "firn").Environment
	for name, service := range read.Services {
		if len(service.Profiles) == 0 {
			continue
		}
		told := strings.Join(service.Command, " ")
		for _, volume := range service.Volumes {
			if file, ok := strings.CutPrefix(volume, "./"); ok {
				file, _, _ = strings.Cut(file, ":")
				told += string(readFile(t, filepath.Join(root, file)))
			}
		}
		for _, value := range service.Environment {
			told += " " + value
		}
		for _, word := range []string{node["AWS_ACCESS_KEY_ID"], node["AWS_SECRET_ACCESS_KEY"], "9000"} {
			if word == "" || !strings.Contains(told, word) {
				t.Errorf("store %s is not told %q: %s", name, word, told)
			}
		}
		if !slices.Contains(service.Ports, "127.0.0.1:9000:9000") {
			t.Errorf("store %s is published at %v", name, service.Ports)
		}
	}
}

// nodeConfig is what firn makes of its environment in the compose file.
func nodeConfig(t *testing.T) firn.Config {
	t.Helper()
	var environ []string
	for name, value := range readProject(t).service(t, "firn").Environment {
		environ = append(environ, name+"="+value)
	}
	for _, stage := range readDockerfile(t) {
		for _, line := range stage {
			if line.name == "ENV" {
				environ = append(environ, strings.Fields(line.rest)...)
			}
		}
	}
	cfg, err := firn.LoadConfig(firn.Sources{Environ: environ})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestTheNodesSettingsAreKnownAndAct(t *testing.T) {
	cfg := nodeConfig(t)
	for _, notice := range cfg.Settings.Notices() {
		if !strings.Contains(notice.Text, "is open to other machines") { // the engine publishes them on this one only
			t.Errorf("a start says %q", notice.Text)
		}
	}
	for name := range readProject(t).service(t, "firn").Environment {
		if !strings.HasPrefix(name, "FIRN_") && !strings.HasPrefix(name, "AWS_") {
			t.Errorf("%s is nothing that firn reads", name)
		}
	}
	store, err := url.Parse(cfg.ObjectStore)
	if err != nil || store.Scheme != "s3" || store.Query().Get("endpoint") != "http://store:9000" {
		t.Errorf("the store is %s: %v", cfg.ObjectStore, err)
	}
	if tiered, _ := cfg.Settings.Lookup("firn.remote.storage.default"); tiered != "true" {
		t.Errorf("new topics are tiered: %s", tiered)
	}
}

// TestBothListenersAreReachedAsTheyAreTold: what a client is told of the listener that it has reached is an address
// that it can reach.
func TestBothListenersAreReachedAsTheyAreTold(t *testing.T) {
	node, told := readProject(t).service(t, "firn"), map[string]string{}
	for _, listener := range nodeConfig(t).Listeners {
		if listener.Advertised == nil {
			t.Errorf("listener %s tells clients the address in the container", listener.Name)
			continue
		}
		host, port, err := net.SplitHostPort(listener.Address)
		if err != nil || host != "" {
			t.Errorf("listener %s listens at %s", listener.Name, listener.Address)
		}
		told[listener.Name] = listener.Advertised.String() + " to " + port
	}
	if want := "firn:9092 to 9092"; told["INSIDE"] != want {
		t.Errorf("containers are told %q, want %q", told["INSIDE"], want)
	}
	published, port, _ := strings.Cut(told["HOST"], " to ")
	if len(told) != 2 || !slices.Contains(node.Ports, published+":"+port) {
		t.Errorf("the machine's clients are told %s, and %v are published", told["HOST"], node.Ports)
	}
	if _, port, _ := net.SplitHostPort(nodeConfig(t).HTTPListener); !slices.Contains(node.Ports, "127.0.0.1:9644:"+port) {
		t.Errorf("HTTP listens at %s, and %v are published", nodeConfig(t).HTTPListener, node.Ports)
	}
}

func TestTheImageIsStaticAndHasNoRoot(t *testing.T) {
	stages := readDockerfile(t)
	if len(stages) != 2 || stages[1][0].rest != "scratch" {
		t.Fatalf("the image is not made from scratch: %v", stages)
	}
	golang := regexp.MustCompile(`^docker\.io/library/golang:(1\.\d+)\.\d+ AS build$`)
	goVersion := golang.FindStringSubmatch(stages[0][0].rest)
	module := string(readFile(t, filepath.Join(root, "go.mod")))
	if goVersion == nil || !strings.Contains(module, "\ngo "+goVersion[1]+".") {
		t.Errorf("it is built with %s, which is not the Go of go.mod", stages[0][0].rest)
	}
	values := map[string]string{}
	for _, line := range stages[1] {
		values[line.name] += line.rest + "\n"
		if line.name == "COPY" && !strings.Contains(line.rest, "--from=build ") {
			t.Errorf("%s comes from somewhere else", line.rest)
		}
	}
	if !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*\n$`).MatchString(values["USER"]) {
		t.Errorf("the user is %q: an engine cannot see that a name is not root", values["USER"])
	}
	owner := "--chown=" + strings.TrimSpace(values["USER"])
	if !strings.Contains(values["COPY"], owner+" /image/var/lib/firn /var/lib/firn\n") {
		t.Errorf("the data directory does not belong to %s", values["USER"])
	}
	for _, name := range []string{"ENTRYPOINT", "CMD", "VOLUME"} {
		var words []string
		if err := json.Unmarshal([]byte(values[name]), &words); err != nil {
			t.Errorf("%s %s needs a shell, which there is not: %v", name, values[name], err)
		}
	}
	if dir := nodeConfig(t).DataDir; !strings.Contains(values["VOLUME"], `"`+dir+`"`) ||
		!slices.Contains(readProject(t).service(t, "firn").Volumes, "firn-data:"+dir) {
		t.Errorf("data lies in %s, which is no volume", dir)
	}
	build := stages[0][len(stages[0])-1].rest
	if !strings.Contains(build, "CGO_ENABLED=0 go build ") || !strings.Contains(build, " -o /image/firn ./cmd/firn ") {
		t.Errorf("it is built by %s", build)
	}
}

// TestTheBuildHasAllItNeeds: nothing that firn is built from is kept from the engine.
func TestTheBuildHasAllItNeeds(t *testing.T) {
	patterns := strings.Fields(regexp.MustCompile(`(?m)^#.*$`).ReplaceAllString(
		string(readFile(t, filepath.Join(root, ".dockerignore"))), ""))
	ignored := func(name string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool {
			pattern, anywhere := strings.CutPrefix(pattern, "**/")
			for at := name; at != "."; at = path.Dir(at) {
				of := at
				if anywhere {
					of = path.Base(at)
				}
				if found, err := path.Match(pattern, of); err != nil || found {
					return true
				}
			}
			return false
		})
	}
	for name, want := range map[string]bool{
		"go.mod": false, "go.sum": false, "cmd/firn/main.go": false, "cmd/firn/demo/data/flights-2013-01.jsonl.gz": false,
		"broker/wire/versions.go": false, "internal/config/own.go": false, "node.go": false,
		".git/config": true, "bin/firn": true, "testdata/server.properties": true, "node_test.go": true,
		"tiering/segment/testdata/x.golden": true, "integration/compose/doc.go": true,
	} {
		if ignored(name) != want {
			t.Errorf("%s is left out: %v", name, !want)
		}
	}
	for _, line := range readDockerfile(t)[0] {
		if line.name != "COPY" {
			continue
		}
		sources := strings.Fields(line.rest)
		for _, source := range sources[:len(sources)-1] {
			if _, err := os.Stat(filepath.Join(root, source)); err != nil {
				t.Errorf("COPY %s: %v", line.rest, err)
			}
		}
	}
}

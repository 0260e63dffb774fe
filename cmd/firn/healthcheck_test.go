package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestHealthcheckTellsWhetherANodeServes(t *testing.T) {
	answer := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(answer)
		_, _ = w.Write([]byte("starting\n"))
	}))
	defer server.Close()
	if got := firn(t, "", "healthcheck", "--http", server.URL); got.status != 0 || got.out != "ready\n" {
		t.Errorf("status %d, %q, %q", got.status, got.out, got.err)
	}
	answer = http.StatusServiceUnavailable
	got := firn(t, "", "healthcheck", "--http", server.URL)
	if got.status != exitFailed || !strings.Contains(got.err, "is not ready: starting") {
		t.Errorf("status %d, %q", got.status, got.err)
	}
}

// TestContainersRunCommandsThatExist looks at each command line of the image and of the compose file.
func TestContainersRunCommandsThatExist(t *testing.T) {
	root := filepath.Join("..", "..")
	image, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	compose, err := os.ReadFile(filepath.Join(root, "docker-compose.yml"))
	if err != nil {
		t.Fatal(err)
	}
	lists := regexp.MustCompile(`(?m)(?:CMD|ENTRYPOINT) (\[.*\])$`).FindAllStringSubmatch(string(image), -1)
	lists = append(lists, regexp.MustCompile(`test: (\["CMD", "/firn".*\])`).FindAllStringSubmatch(string(compose), -1)...)
	var commands []string
	for _, list := range lists {
		var words []string
		if err := json.Unmarshal([]byte(list[1]), &words); err != nil {
			t.Fatalf("%s: %v", list[0], err)
		}
		words = strings.Fields(strings.TrimPrefix(strings.TrimPrefix(strings.Join(words, " "), "CMD "), "/firn"))
		if len(words) == 0 {
			continue // the entry point
		}
		found, rest, err := rootCommand().Find(words)
		if err != nil || found.Name() == "firn" {
			t.Errorf("%s: %v", list[0], err)
			continue
		}
		if err := found.ParseFlags(rest); err != nil {
			t.Errorf("%s: %v", list[0], err)
		}
		commands = append(commands, found.Name())
	}
	if got := strings.Join(commands, " "); got != "healthcheck serve healthcheck" {
		t.Errorf("containers run %s", got)
	}
}

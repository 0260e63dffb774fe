package launch

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheReadyLineTellsTheAddresses(t *testing.T) {
	log := "not JSON\n" + `{"msg":"opened","kafka":"no"}` + "\n" +
		`{"level":"INFO","msg":"broker is ready","kafka":"127.0.0.1:5","http":"127.0.0.1:6"}` + "\n"
	if kafka, http := ready(log); kafka != "127.0.0.1:5" || http != "127.0.0.1:6" {
		t.Errorf("Kafka at %q, HTTP at %q", kafka, http)
	}
	if kafka, _ := ready(log[:60]); kafka != "" {
		t.Errorf("a node that is not ready is at %q", kafka)
	}
}

func TestAProgramThatEndsEarlyShowsWhatItSaid(t *testing.T) {
	dir := t.TempDir()
	firn := filepath.Join(dir, "firn")
	if err := os.WriteFile(firn, []byte("#!/bin/sh\necho the disk is gone\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := Firn{Binary: firn, Dir: dir, CPU: AnyCPU}.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "the disk is gone") {
		t.Errorf("the start failed with %v", err)
	}
}

func TestAProgramThatDoesNotServeIsKilled(t *testing.T) {
	dir := t.TempDir()
	firn := filepath.Join(dir, "firn")
	if err := os.WriteFile(firn, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Firn{Binary: firn, Dir: dir, CPU: AnyCPU}).Start(ctx); err == nil ||
		!strings.Contains(err.Error(), "does not serve") {
		t.Errorf("the start failed with %v", err)
	}
}

func TestAFolderWithoutKafkaIsSaidToBeNone(t *testing.T) {
	if version, err := KafkaVersion(t.TempDir()); err == nil {
		t.Errorf("version %q in an empty folder", version)
	}
}

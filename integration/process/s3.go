//go:build integration

package process

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// The credentials of the S3 server.
const (
	s3AccessKey = "test"
	s3SecretKey = "testsecret"
)

// S3 is versitygw, an S3 server over a folder, running.
type S3 struct {
	// Dir holds a folder for each bucket.
	Dir      string
	Endpoint string

	t       testing.TB
	address string
	running *running
}

// ServeS3 starts an S3 server with one bucket.
func ServeS3(t testing.TB, bucket string) *S3 {
	t.Helper()
	s := &S3{t: t, Dir: t.TempDir(), address: freeAddress(t)}
	s.Endpoint = "http://" + s.address
	if err := os.Mkdir(filepath.Join(s.Dir, bucket), 0o755); err != nil {
		t.Fatal(err)
	}
	s.Start()
	return s
}

// ServeMinio starts MinIO's server, whose binary lies at a path. Buckets are made when they are used.
func ServeMinio(t testing.TB, path string) *S3 {
	t.Helper()
	s := &S3{t: t, Dir: t.TempDir(), address: freeAddress(t)}
	s.Endpoint = "http://" + s.address
	cmd := exec.Command(path, "server", "--address", s.address, "--quiet", s.Dir)
	cmd.Env = append(os.Environ(), "MINIO_ROOT_USER="+s3AccessKey, "MINIO_ROOT_PASSWORD="+s3SecretKey)
	s.launch(cmd, "/minio/health/ready")
	return s
}

// Environment is what a program needs to use the server.
func (s *S3) Environment() []string {
	return []string{
		"AWS_ACCESS_KEY_ID=" + s3AccessKey, "AWS_SECRET_ACCESS_KEY=" + s3SecretKey, "AWS_REGION=us-east-1",
		"AWS_EC2_METADATA_DISABLED=true",
	}
}

// URL names a folder in a bucket as firn.object.store does.
func (s *S3) URL(bucket, prefix string) string {
	return fmt.Sprintf("s3://%s/%s?endpoint=%s&path_style=true", bucket, prefix, s.Endpoint)
}

// Start starts the server, again on the same port and folder, and waits until it answers.
func (s *S3) Start() {
	s.t.Helper()
	path := Program(s.t, "FIRN_VERSITYGW", filepath.Join("..", "..", "bin", "tools", "versitygw"))
	cmd := exec.Command(path, "--port", s.address, "--keep-alive", "--quiet",
		"--health", "/health", "posix", s.Dir)
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+s3AccessKey, "ROOT_SECRET_KEY="+s3SecretKey)
	s.launch(cmd, "/health")
}

// launch starts a server and waits until it says that it is well.
func (s *S3) launch(cmd *exec.Cmd, health string) {
	s.t.Helper()
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	s.running = start(s.t, cmd)
	s.t.Cleanup(func() {
		if s.running.kill(); s.t.Failed() {
			s.t.Logf("output of the S3 server:\n%s", output.String())
		}
	})
	Eventually(s.t, "the S3 server answers", func(ctx context.Context) bool {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Endpoint+health, nil)
		if err != nil {
			s.t.Fatal(err)
		}
		transport := &http.Transport{DisableKeepAlives: true}
		res, err := transport.RoundTrip(req)
		if err != nil {
			return false
		}
		defer res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

// Stop ends the server.
func (s *S3) Stop() { s.running.kill() }

// freeAddress is a port that nobody listens on, for a program that cannot tell which one the system has picked.
func freeAddress(t testing.TB) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// Eventually asks again and again until something has become true in another program, which has no other way to tell.
func Eventually(t testing.TB, what string, holds func(context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for !holds(ctx) {
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("for %v it did not come true that %s", patience, what)
		}
	}
}

package launch

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
)

// S3 is how versitygw, an S3 server over a folder, is started.
type S3 struct {
	Binary string
	Dir    string // for its buckets and its log; it exists
	CPU    int    // the only processor that it may use, or AnyCPU
	Nice   bool   // it lets all others go first
}

// The credentials of the S3 server, and its only bucket.
const (
	s3AccessKey = "test"
	s3SecretKey = "testsecret"
	s3Bucket    = "history"
)

// Start runs the server and waits until it answers.
func (s S3) Start(ctx context.Context) (*Broker, error) {
	ports, err := freePorts(ctx, 1)
	if err != nil {
		return nil, err
	}
	buckets := filepath.Join(s.Dir, "buckets")
	if err := os.MkdirAll(filepath.Join(buckets, s3Bucket), 0o755); err != nil {
		return nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", ports[0])
	b, err := command{
		name: "versitygw", dir: s.Dir, cpu: s.CPU, nice: s.Nice,
		args: []string{s.Binary, "--port", address, "--keep-alive", "--quiet", "--health", "/health", "posix", buckets},
		env:  []string{"ROOT_ACCESS_KEY=" + s3AccessKey, "ROOT_SECRET_KEY=" + s3SecretKey},
	}.start()
	if err != nil {
		return nil, err
	}
	b.Address, b.HTTP = address, address
	transport := &http.Transport{DisableKeepAlives: true}
	return b, b.await(ctx, func(ctx context.Context) bool {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/health", nil)
		if err != nil {
			return false
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

// S3Environment is what a program needs to use the server.
func S3Environment() []string {
	return []string{
		"AWS_ACCESS_KEY_ID=" + s3AccessKey, "AWS_SECRET_ACCESS_KEY=" + s3SecretKey, "AWS_REGION=us-east-1",
		"AWS_EC2_METADATA_DISABLED=true",
	}
}

// S3URL names a folder of the server as firn.object.store does.
func S3URL(server *Broker, folder string) string {
	return fmt.Sprintf("s3://%s/%s?endpoint=http://%s&path_style=true", s3Bucket, folder, server.Address)
}

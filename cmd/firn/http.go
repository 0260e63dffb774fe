package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/firnlog/firn/broker/admin/view"
)

const (
	defaultHTTP = "127.0.0.1:9644"
	// httpTimeout is for an answer that comes from memory.
	httpTimeout = 20 * time.Second
	// maxAnswerBytes bounds what an answer may take: a million objects and more.
	maxAnswerBytes = 1 << 30
)

// httpFlag is where firn's own HTTP listener is, for what Kafka's protocol has no request for.
type httpFlag struct{ address string }

func addHTTPFlag(cmd *cobra.Command) *httpFlag {
	flag := &httpFlag{}
	cmd.Flags().StringVar(&flag.address, "http", defaultHTTP, "address of firn's HTTP listener, HOST:PORT")
	return flag
}

// get asks for a JSON document.
func (f *httpFlag) get(ctx context.Context, path string, into any) error {
	address := strings.TrimSuffix(strings.TrimPrefix(f.address, "http://"), "/")
	ctx, stop := context.WithTimeout(ctx, httpTimeout)
	defer stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, http.NoBody)
	if err != nil {
		return fmt.Errorf("--http %s: %w", f.address, err)
	}
	transport := &http.Transport{DisableKeepAlives: true} // one request, and nothing left open
	response, err := (&http.Client{Transport: transport}).Do(request)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("cannot reach firn's HTTP listener at %s: connection refused; is `firn serve` running, "+
			"or give --http HOST:PORT", address)
	}
	if err != nil {
		return fmt.Errorf("ask firn's HTTP listener: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", address, err)
	}
	if response.StatusCode != http.StatusOK {
		return httpError(address, response.Status, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s does not answer as firn does: %w; check --http HOST:PORT", address, err)
	}
	return nil
}

func httpError(address, status string, body []byte) error {
	var answer view.Error
	if err := json.Unmarshal(body, &answer); err == nil && answer.Error != "" {
		return errors.New(answer.Error)
	}
	return fmt.Errorf("%s answers %s; check that it is firn's HTTP listener (--http HOST:PORT)", address, status)
}

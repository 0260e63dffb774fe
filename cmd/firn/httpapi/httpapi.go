// Package httpapi is the client of firn's HTTP listener: it asks for one JSON document of broker/admin/view. The
// command line and the demo use it. It keeps no connection and retries nothing.
package httpapi

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

	"github.com/firnlog/firn/broker/admin/view"
)

const (
	// timeout is for an answer that comes from memory.
	timeout = 20 * time.Second
	// maxAnswerBytes bounds what an answer may take: a million objects and more.
	maxAnswerBytes = 1 << 30
)

// Get asks the listener at address, HOST:PORT, for the document at path.
func Get(ctx context.Context, address, path string, into any) error {
	return ask(ctx, http.MethodGet, address, path, into)
}

// Post asks the listener to do what path stands for, and takes its answer.
func Post(ctx context.Context, address, path string, into any) error {
	return ask(ctx, http.MethodPost, address, path, into)
}

func ask(ctx context.Context, method, address, path string, into any) error {
	address = strings.TrimSuffix(strings.TrimPrefix(address, "http://"), "/")
	ctx, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, http.NoBody)
	if err != nil {
		return fmt.Errorf("--http %s: %w", address, err)
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
		return refusal(address, response.Status, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s does not answer as firn does: %w; check --http HOST:PORT", address, err)
	}
	return nil
}

// refusal is what the listener says about a request that it does not grant.
func refusal(address, status string, body []byte) error {
	var answer view.Error
	if err := json.Unmarshal(body, &answer); err == nil && answer.Error != "" {
		return errors.New(answer.Error)
	}
	return fmt.Errorf("%s answers %s; check that it is firn's HTTP listener (--http HOST:PORT)", address, status)
}

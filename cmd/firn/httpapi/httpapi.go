// Package httpapi is the client of firn's HTTP listener: it asks for one JSON document of broker/admin/view, or whether
// the node is ready. The command line and the demo use it. It keeps no connection and retries nothing.
package httpapi

import (
	"bytes"
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
	return ask(ctx, http.MethodGet, address, path, nil, into)
}

// Post asks the listener to do what path stands for, and takes its answer.
func Post(ctx context.Context, address, path string, into any) error {
	return ask(ctx, http.MethodPost, address, path, nil, into)
}

// Send is Post with a document of its own.
func Send(ctx context.Context, address, path string, document, into any) error {
	body, err := json.Marshal(document)
	if err != nil {
		return fmt.Errorf("ask firn's HTTP listener: %w", err)
	}
	return ask(ctx, http.MethodPost, address, path, body, into)
}

// Delete asks the listener to end what path stands for, and takes its answer.
func Delete(ctx context.Context, address, path string, into any) error {
	return ask(ctx, http.MethodDelete, address, path, nil, into)
}

// Ready asks the listener whether its node serves clients; the error tells why not.
func Ready(ctx context.Context, address string) error {
	got, err := exchange(ctx, http.MethodGet, address, "/readyz", nil)
	switch {
	case err != nil:
		return err
	case got.code == http.StatusServiceUnavailable:
		return fmt.Errorf("the node at %s is not ready: %s", got.address, bytes.TrimSpace(got.body))
	case got.code != http.StatusOK:
		return got.refusal()
	}
	return nil
}

func ask(ctx context.Context, method, address, path string, body []byte, into any) error {
	got, err := exchange(ctx, method, address, path, body)
	if err != nil {
		return err
	}
	if got.code != http.StatusOK {
		return got.refusal()
	}
	if err := json.Unmarshal(got.body, into); err != nil {
		return fmt.Errorf("%s does not answer as firn does: %w; check --http HOST:PORT", got.address, err)
	}
	return nil
}

// answer is what the listener at an address, HOST:PORT, has said.
type answer struct {
	address string
	code    int
	status  string // the code and what it is called
	body    []byte
}

func exchange(ctx context.Context, method, address, path string, sent []byte) (answer, error) {
	address = strings.TrimSuffix(strings.TrimPrefix(address, "http://"), "/")
	ctx, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, bytes.NewReader(sent))
	if err != nil {
		return answer{}, fmt.Errorf("--http %s: %w", address, err)
	}
	transport := &http.Transport{DisableKeepAlives: true} // one request, and nothing left open
	response, err := (&http.Client{Transport: transport}).Do(request)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return answer{}, fmt.Errorf("cannot reach firn's HTTP listener at %s: connection refused; is `firn serve` running, "+
			"or give --http HOST:PORT", address)
	}
	if err != nil {
		return answer{}, fmt.Errorf("ask firn's HTTP listener: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err != nil {
		return answer{}, fmt.Errorf("read the answer of %s: %w", address, err)
	}
	return answer{address: address, code: response.StatusCode, status: response.Status, body: body}, nil
}

// refusal is what the listener says about a request that it does not grant.
func (a answer) refusal() error {
	var said view.Error
	if err := json.Unmarshal(a.body, &said); err == nil && said.Error != "" {
		return errors.New(said.Error)
	}
	return fmt.Errorf("%s answers %s; check that it is firn's HTTP listener (--http HOST:PORT)", a.address, a.status)
}

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/firnlog/firn/cmd/firn/httpapi"
)

const defaultHTTP = "127.0.0.1:9644"

// httpFlag is where firn's own HTTP listener is, for what Kafka's protocol has no request for.
type httpFlag struct{ address string }

func addHTTPFlag(cmd *cobra.Command) *httpFlag {
	flag := &httpFlag{}
	cmd.Flags().StringVar(&flag.address, "http", defaultHTTP, "address of firn's HTTP listener, HOST:PORT")
	return flag
}

func (f *httpFlag) get(ctx context.Context, path string, into any) error {
	return httpapi.Get(ctx, f.address, path, into)
}

func (f *httpFlag) delete(ctx context.Context, path string, into any) error {
	return httpapi.Delete(ctx, f.address, path, into)
}

func (f *httpFlag) send(ctx context.Context, path string, document, into any) error {
	return httpapi.Send(ctx, f.address, path, document, into)
}

func (f *httpFlag) post(ctx context.Context, path string, into any) error {
	return httpapi.Post(ctx, f.address, path, into)
}

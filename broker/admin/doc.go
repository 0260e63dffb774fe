// Package admin is the HTTP side of a broker: /metrics, /healthz, /readyz, the JSON API whose documents are in
// broker/admin/view and, on demand, Go's profiles. The root package mounts it; operators and the command line read
// it. It only reads: nothing here changes the broker.
package admin

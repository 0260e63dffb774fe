//go:build linux

// Command bench measures firn beside Apache Kafka and writes docs/benchmarks.md: `make bench-kafka`. Each row of its
// table is a workload for both, or for firn with and without something; the client is package replay, the figures come
// from package sampler and go to package report.
//
// Nobody imports it. It changes nothing but its own folder, which it removes, and the page with its results.
package main

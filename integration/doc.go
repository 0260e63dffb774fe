// Package integration is the tests of whole nodes: brokers in this process, on a network, disks and a bucket in memory,
// used by a real client in fake time. Below it, under the build tag integration, are the tests of the built binary
// (process) and of other people's clients and tools (clients), a comparison with Apache Kafka (differential), and the
// modules of the programs that they need (tools).
package integration

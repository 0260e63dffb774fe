//go:build integration

// Package clients is the tests of the built binary by programs of other people: the clients that table_test.go lists,
// each reading what each of them wrote, and sharing topics as members of groups; Kafka Streams; Kafka's dump tool on
// the files of a stopped node, and Kafka's command-line tools. A program that is not installed skips its tests, or
// fails them where FIRN_CI=1 says that all are there.
package clients

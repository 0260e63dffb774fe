//go:build integration

// Package process is the tests of the built binary, as its users run it: on loopback, on a real disk, with signals,
// with an S3 server. What starts and watches programs (programs.go, firn.go, s3.go) is used by integration/clients too.
// It uses no port but those that the system picks.
package process

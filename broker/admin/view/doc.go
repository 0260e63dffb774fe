// Package view holds the JSON documents of firn's HTTP API: what broker/admin writes and what the command line, and
// anybody else, reads. It holds shapes only: no I/O, no decisions, and nothing of ours is imported. Fields are added,
// never renamed. Offsets are Kafka's; every range is half-open, its end exclusive; times are Unix milliseconds, −1
// unknown.
package view

// Package command holds the commands of the metadata log: one typed struct each, with a versioned binary encoding, and
// the values that go in and out of the tier's state machine (segment entries, garbage).
//
// The api, replica and tiering packages build commands and propose them through metastore.Store; its state machine
// decodes and applies them. Commands carry every id, size and elapsed time they need: nothing here reads a clock, draws
// a random number, or knows raft and Pebble.
package command

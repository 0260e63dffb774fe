// Package bulk reads the history of a topic from the bucket alone, as fast as the bucket gives it: `firn consume
// --from-bucket`, and later exports. A Snapshot says which objects there are, from a pin that a broker gave out or from
// the newest checkpoint; a Reader cuts them into Splits of about 8 MiB, reads several at a time, each with one request,
// checks them, and delivers them in order. One partition is as fast as many. What a reader sees is what a consumer gets
// from a broker, aborted transactions left out. It never writes, and never asks a broker.
package bulk

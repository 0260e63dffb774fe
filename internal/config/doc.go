// Package config is the tables of settings: every broker and topic setting of Kafka 4.4 and firn's own (firn.*), with
// type, default, allowed values, what it does here and a line of documentation. It resolves the values of one topic
// and describes settings the way DescribeConfigs answers them.
//
// Everything may import it. It holds values and pure functions only: it reads no file, no environment and no flag;
// the root package does that.
package config

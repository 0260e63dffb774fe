// Command firn is the one binary: it runs a node (serve), shows the main job on real events (demo), and is a client of
// firn and of any other Kafka cluster (topic, produce, consume, group, txn, bench) and of firn's own storage (tier,
// log).
//
// Every command takes --format json. Results go to stdout; errors go to stderr, in one line that says what to do. The
// exit status is 0 on success only: 1 something failed, 2 the command line was wrong, 3 some of several things failed,
// 4 the cluster does not allow it.
package main

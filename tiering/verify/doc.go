// Package verify compares what the manifests say with what is in the bucket: whether each object is there and whole,
// and whether there is anything that nobody knows. The root package runs one Verifier, which verifies what it is asked
// to, and everything once in a while. It goes on where it was after a restart, and holds to a budget of bytes. It only
// reads: what is wrong is reported and left alone.
//
// Metrics: firn_tier_verify_objects_total, firn_tier_verify_bytes_total, firn_tier_verify_findings.
package verify

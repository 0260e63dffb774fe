// Package report holds what was measured, and makes docs/benchmarks.md of it: medians of ratios with their ranges,
// goals, and what falls short. It is values and text only.
//
// It is used by integration/bench, which measures.
package report

// Package pertopic counts by topic for Prometheus, with a bound on the number of series: beyond it only the sum of all
// topics is left. The sum is always there, as topic="", and never falls, whatever topics go. The tier uses it; it knows
// nothing of what is counted.
package pertopic

// Package sampler reads from /proc what a process has used: processor time, memory, context switches, system calls; and
// what the rest of the machine did meanwhile, by which a disturbed measurement is told.
//
// It is used by integration/bench. It knows no broker, and needs Linux.
package sampler

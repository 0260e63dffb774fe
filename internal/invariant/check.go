package invariant

import "fmt"

// Violation is what Check and Fail panic with.
type Violation struct{ Message string }

func (v Violation) Error() string { return "invariant violated: " + v.Message }

// Check panics unless cond holds. The message says what was assumed, and the values that break it. Its arguments are
// evaluated, and may be allocated, also where cond holds: where that counts, use "if !cond { invariant.Fail(…) }".
func Check(cond bool, format string, args ...any) {
	if !cond {
		Fail(format, args...)
	}
}

// Fail panics: the program is at a point that it cannot reach.
func Fail(format string, args ...any) {
	panic(Violation{Message: fmt.Sprintf(format, args...)})
}

// Expensive runs a check that costs too much for production, such as a walk over all segments. It does nothing unless
// the program was built with the tag "invariants".
func Expensive(check func()) {
	if Enabled {
		check()
	}
}

package invariant

import (
	"errors"
	"testing"
)

// violation is the error that f panics with, or nil.
func violation(f func()) (err error) {
	defer func() {
		if recovered := recover(); recovered != nil {
			err = recovered.(error)
		}
	}()
	f()
	return nil
}

func TestCheckPanicsOnlyWhereTheConditionIsFalse(t *testing.T) {
	if err := violation(func() { Check(true, "end %d before start %d", 1, 2) }); err != nil {
		t.Errorf("panicked with %v", err)
	}
	err := violation(func() { Check(false, "end %d before start %d", 1, 2) })
	var v Violation
	if !errors.As(err, &v) || v.Message != "end 1 before start 2" ||
		err.Error() != "invariant violated: end 1 before start 2" {
		t.Errorf("panicked with %v", err)
	}
}

func TestExpensiveChecksRunUnderTheBuildTag(t *testing.T) {
	err := violation(func() { Expensive(func() { Fail("found") }) })
	if (err != nil) != Enabled {
		t.Errorf("enabled %v, but panicked with %v", Enabled, err)
	}
}

func TestHotPathsCanCheckWithoutAllocating(t *testing.T) {
	end := int64(1 << 40)
	allocs := testing.AllocsPerRun(100, func() {
		end++
		if end < 0 {
			Fail("end %d", end)
		}
		if !Enabled {
			Expensive(func() { Check(end > 0, "end %d", end) })
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

package vfs

import (
	"io"
	"testing"
)

type countingHolder struct{ released int }

func (h *countingHolder) Release() { h.released++ }

func TestRegionReadsItsRangeOnly(t *testing.T) {
	file := create(t, NewMem(), "f")
	write(t, file, "0123456789", 0)
	hold := &countingHolder{}
	region := NewRegion(file, 2, 6, hold)
	for name, test := range map[string]struct {
		region Region
		off    int64
		length int
		want   string
		err    error
	}{
		"from its start":                      {region, 0, 3, "234", nil},
		"up to its end":                       {region, 3, 3, "567", nil},
		"past its end":                        {region, 4, 5, "67", io.EOF},
		"at its end":                          {region, 6, 1, "", io.EOF},
		"nothing at its end":                  {region, 6, 0, "", nil},
		"far past its end":                    {region, 100, 1, "", io.EOF},
		"in a slice":                          {region.Slice(1, 2), 0, 4, "34", io.EOF},
		"in a slice of a slice":               {region.Slice(1, 4).Slice(1, 2), 1, 1, "5", nil},
		"in an empty slice at the end":        {region.Slice(6, 0), 0, 1, "", io.EOF},
		"in the zero region":                  {Region{}, 0, 1, "", io.EOF},
		"where the file is shorter":           {NewRegion(file, 8, 5, nil), 0, 5, "89", io.ErrUnexpectedEOF},
		"in all of what the file is short of": {NewRegion(file, 20, 5, nil), 0, 5, "", io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			buffer := make([]byte, test.length)
			n, err := test.region.ReadAt(buffer, test.off)
			if string(buffer[:n]) != test.want || err != test.err {
				t.Errorf("read %q, %v; want %q, %v", buffer[:n], err, test.want, test.err)
			}
		})
	}
	if _, err := region.ReadAt(make([]byte, 1), -1); err == nil {
		t.Error("read before the region")
	}
	if slice := region.Slice(1, 4); slice.Position() != 3 || slice.Size() != 4 || slice.File() != file {
		t.Errorf("the slice is %d+%d", slice.Position(), slice.Size())
	}
	region.Slice(1, 4).Release()
	Region{}.Release()
	if hold.released != 1 {
		t.Errorf("released %d times", hold.released)
	}
}

func TestRegionSliceOutsidePanics(t *testing.T) {
	region := NewRegion(nil, 2, 6, nil)
	for _, test := range [][2]int64{{-1, 1}, {0, 7}, {7, 0}, {3, -1}, {1 << 62, 1 << 62}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("slice %v is allowed", test)
				}
			}()
			region.Slice(test[0], test[1])
		}()
	}
}

func TestRegionDoesNotAllocate(t *testing.T) {
	file := create(t, NewMem(), "f")
	write(t, file, "0123456789", 0)
	hold := &countingHolder{}
	buffer := make([]byte, 4)
	var last Region
	allocs := testing.AllocsPerRun(100, func() {
		last = NewRegion(file, 2, 6, hold).Slice(1, 4)
		if n, err := last.ReadAt(buffer, 0); n != 4 || err != nil {
			t.Fatal(n, err)
		}
		last.Release()
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

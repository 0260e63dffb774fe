package wire

import "fmt"

const (
	// memoryPerByte is how many bytes decoding may allocate for each byte of a body, beyond memoryBase. Elements of two
	// bytes that become structures of fifty are the worst the protocol knows; real requests stay below five.
	memoryPerByte = 7
	// memoryBase is what any request may allocate, however short it is: thousands of topics with one-letter names pass.
	memoryBase = 1 << 20
)

// bodyWalker walks a request body along its layout and adds up what decoding it will allocate.
type bodyWalker struct {
	cursor
	version  int16
	flexible bool
	memory   int64
}

// checkBody decides whether kmsg may decode the body: it must have the shape of its version, and decoding it must not
// allocate more than memoryBase plus memoryPerByte times its length.
func checkBody(key, version int16, body []byte) error {
	malformed := func(what string) error { return &MalformedError{Key: key, Version: version, What: what} }
	w := walkBody(key, version, body)
	if !w.ok() {
		return malformed(w.failure)
	}
	if limit := memoryBase + memoryPerByte*int64(len(body)); w.memory > limit {
		return malformed(fmt.Sprintf("a body of %d bytes would take %d bytes of memory", len(body), w.memory))
	}
	return nil
}

// walkBody walks a body to its end, or to where it is malformed.
func walkBody(key, version int16, body []byte) bodyWalker {
	w := bodyWalker{cursor: cursor{data: body}, version: version, flexible: mustAPI(key).Flexible(version)}
	layout, ok := layouts[key]
	if !ok {
		w.fail("no layout of this request is known")
	}
	w.walkStructure(layout)
	return w
}

func (w *bodyWalker) walkStructure(fields []field) {
	for i := range fields {
		w.walkField(&fields[i])
	}
	if !w.flexible {
		return
	}
	if tags := w.skipTags(); tags > 0 {
		w.memory += tagMapMemory + tagMemory*int64(tags)
	}
}

func (w *bodyWalker) walkField(f *field) {
	if w.version < f.from || w.version > f.until || !w.ok() {
		return
	}
	null := nullability(w.version >= f.nullableFrom)
	switch f.kind {
	case kindFixed:
		w.take(f.size)
	case kindString:
		w.walkString(nonNull)
	case kindNullableString:
		w.walkString(null)
		w.memory += int64(sizeofString) // kmsg keeps a pointer to it
	case kindArray:
		w.walkArray(f, nonNull)
	case kindNullableArray:
		w.walkArray(f, null)
	}
}

func (w *bodyWalker) walkString(null nullability) {
	if length := len(w.string(w.flexible, null)); length > 0 {
		w.memory += int64(length) + allocationUnit
	}
}

func (w *bodyWalker) walkArray(f *field, null nullability) {
	count := w.arrayLength(w.flexible, null, 1)
	if count <= 0 {
		return
	}
	// The allocator rounds large slices up to whole pages and small ones to size classes of at most an eighth.
	w.memory += int64(count)*int64(f.elementMemory)*9/8 + allocationUnit
	for range count {
		if f.plain {
			w.walkField(&f.elements[0])
		} else {
			w.walkStructure(f.elements)
		}
		if !w.ok() {
			return
		}
	}
}

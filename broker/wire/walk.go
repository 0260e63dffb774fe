package wire

import "fmt"

const (
	// memoryPerByte is how many bytes decoding may allocate for each byte of a body, beyond memoryBase. Elements of two
	// bytes that become structures of fifty are the worst the protocol knows; lists of names of ten letters stay below.
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
	limit    int64 // of memory
}

// checkBody decides whether kmsg may decode the body: it must have the shape of its version, and decoding it must not
// allocate more than memoryBase plus memoryPerByte times its length.
func checkBody(key, version int16, body []byte) error {
	w := walkBody(key, version, body, memoryBase+memoryPerByte*int64(len(body)))
	if !w.ok() {
		return &MalformedError{Key: key, Version: version, What: w.failure}
	}
	return nil
}

// walkBody walks a body to its end, or to where it is malformed or would take more memory than the limit.
func walkBody(key, version int16, body []byte, limit int64) bodyWalker {
	w := bodyWalker{
		cursor: cursor{data: body}, version: version, flexible: mustAPI(key).Flexible(version), limit: limit,
	}
	layout, ok := layouts[key]
	if !ok {
		w.fail("no layout of this request is known")
	}
	w.walkStructure(layout)
	return w
}

// charge adds to the memory that decoding will take.
func (w *bodyWalker) charge(memory int64) {
	if w.memory += memory; w.memory > w.limit {
		w.fail(fmt.Sprintf("%d bytes would take more than %d bytes of memory", len(w.data), w.limit))
	}
}

func (w *bodyWalker) walkStructure(fields []field) {
	for i := range fields {
		w.walkField(&fields[i])
	}
	if !w.flexible {
		return
	}
	if tags := w.skipTags(); tags > 0 {
		w.charge(tagMapMemory + tagMemory*int64(tags))
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
		w.charge(int64(sizeofString)) // kmsg keeps a pointer to it
	case kindBytes:
		w.bytes(w.flexible, nonNull)
	case kindArray:
		w.walkArray(f, nonNull)
	case kindNullableArray:
		w.walkArray(f, null)
	case kindNullableStructure:
		w.walkNullableStructure(f)
	}
}

func (w *bodyWalker) walkNullableStructure(f *field) {
	switch present := w.int8(); present {
	case -1:
	case 1:
		w.charge(int64(f.elementMemory) + allocationUnit)
		w.walkStructure(f.elements)
	default:
		w.fail(fmt.Sprintf("a structure is neither there (1) nor null (-1) but %d", present))
	}
}

func (w *bodyWalker) walkString(null nullability) {
	if length := len(w.string(w.flexible, null)); length > 0 {
		w.charge(int64(length) + allocationUnit)
	}
}

func (w *bodyWalker) walkArray(f *field, null nullability) {
	count := w.arrayLength(w.flexible, null, 1)
	if count <= 0 {
		return
	}
	// The allocator rounds large slices up to whole pages and small ones to size classes of at most an eighth.
	w.charge(int64(count)*int64(f.elementMemory)*9/8 + allocationUnit)
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

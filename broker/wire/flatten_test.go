package wire

import "fmt"

// flatten puts all bytes of a response into one slice.
func flatten(r *Response) []byte {
	var flat []byte
	for _, chunk := range r.Chunks() {
		if chunk.Region.Size() == 0 {
			flat = append(flat, chunk.Bytes...)
			continue
		}
		data := make([]byte, chunk.Region.Size())
		if _, err := chunk.Region.ReadAt(data, 0); err != nil {
			panic(fmt.Sprintf("read region: %v", err))
		}
		flat = append(flat, data...)
	}
	return flat
}

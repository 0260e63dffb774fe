package wire

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// header builds a request header; a client id of "\x00" stands for null.
func header(key, version int16, correlationID int32, clientID string) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(correlationID))
	if clientID == "\x00" {
		b = append(b, 0xff, 0xff)
	} else {
		b = binary.BigEndian.AppendUint16(b, uint16(len(clientID)))
		b = append(b, clientID...)
	}
	if api, ok := LookupAPI(key); ok && api.Flexible(version) {
		b = append(b, 0)
	}
	return b
}

func withClientIDLength(key, version int16, length int16) []byte {
	b := header(key, version, 7, "")
	binary.BigEndian.PutUint16(b[8:], uint16(length))
	return b
}

func TestParseHeader(t *testing.T) {
	flexibleTags := header(KeyMetadata, 9, 1, "c")
	flexibleTags = append(flexibleTags[:len(flexibleTags)-1], 2, 0, 1, 'x', 5, 0, 'b', 'o', 'd', 'y')
	cases := map[string]struct {
		frame    []byte
		clientID string
		body     string
	}{
		"a header without tagged fields":   {append(header(KeyMetadata, 1, 7, "client"), "body"...), "client", "body"},
		"a flexible header":                {append(header(KeyMetadata, 9, 7, "client"), "body"...), "client", "body"},
		"a null client id":                 {header(KeyMetadata, 1, 7, "\x00"), "", ""},
		"an empty client id":               {header(KeyMetadata, 1, 7, ""), "", ""},
		"unknown tagged fields are passed": {flexibleTags, "c", "body"},
		"ApiVersions in its newest served version": {
			append(header(KeyApiVersions, 4, 7, "client"), "body"...), "client", "body",
		},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			req, err := ParseHeader(test.frame)
			if err != nil {
				t.Fatal(err)
			}
			if req.ClientID != test.clientID || string(req.Body) != test.body || req.UnsupportedVersion {
				t.Errorf("got client id %q, body %q, unsupported %v", req.ClientID, req.Body, req.UnsupportedVersion)
			}
		})
	}
}

func TestParseHeaderFindsMalformedHeaders(t *testing.T) {
	noTags := slices.Clip(header(KeyMetadata, 9, 7, "")[:10])
	manyTags := header(KeyMetadata, 9, 1, "c")
	manyTags = binary.AppendUvarint(manyTags[:len(manyTags)-1], 10_001)
	manyTags = append(manyTags, make([]byte, 3*10_001)...)
	cases := map[string][]byte{
		"PR-04 client id length -7530":                 withClientIDLength(KeyMetadata, 1, -7530),
		"PR-04 client id length -2":                    withClientIDLength(KeyMetadata, 9, -2),
		"PR-04 client id longer than the frame":        withClientIDLength(KeyMetadata, 1, 20),
		"client id cut off":                            header(KeyMetadata, 1, 7, "client")[:12],
		"client id length cut off":                     header(KeyMetadata, 1, 7, "")[:9],
		"tagged fields missing":                        header(KeyMetadata, 9, 7, "")[:10],
		"tagged field longer than the frame":           append(noTags, 1, 0, 100),
		"tagged field of 4 GiB":                        append(noTags, 1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f),
		"count of tagged fields of more than 32 bits":  append(noTags, 0xff, 0xff, 0xff, 0xff, 0x7f),
		"more tagged fields than anything could need":  manyTags,
		"shorter than a header":                        header(KeyMetadata, 1, 7, "")[:7],
		"ApiVersions frame larger than it may ever be": append(header(KeyApiVersions, 3, 7, ""), make([]byte, 65<<10)...),
		"nothing": nil,
	}
	for name, frame := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := ParseHeader(frame)
			var malformed *MalformedError
			if !errors.As(err, &malformed) {
				t.Fatalf("got %v, want a MalformedError", err)
			}
			if strings.HasPrefix(name, "PR-04") && (malformed.Key != KeyMetadata || malformed.Version < 1) {
				t.Errorf("the error does not tell API key and version: %v", err)
			}
		})
	}
}

func TestParseHeaderRefusesUnsupportedVersionsBeforeTheBody(t *testing.T) {
	for _, test := range []struct{ key, version int16 }{
		{KeyMetadata, 200}, {KeyMetadata, -1}, {KeyProduce, 2}, {KeyProduce, 14}, {KeyFetch, 3}, {KeyApiVersions, -1},
		{4, 0}, {-1, 0}, {999, 1},
	} {
		// Everything behind the correlation id is garbage, and nobody may care.
		frame := append(header(test.key, test.version, 1, "")[:8], 0x80, 0, 0xff)
		_, err := ParseHeader(frame)
		var unsupported *UnsupportedVersionError
		if !errors.As(err, &unsupported) {
			t.Errorf("key %d version %d: got %v, want an UnsupportedVersionError", test.key, test.version, err)
			continue
		}
		if unsupported.Key != test.key || unsupported.Version != test.version {
			t.Errorf("key %d version %d: the error says key %d version %d", test.key, test.version,
				unsupported.Key, unsupported.Version)
		}
	}
}

func TestParseHeaderLetsApiVersionsOfTheFuturePassUnparsed(t *testing.T) {
	frame := append(header(KeyApiVersions, 99, 12345, "")[:8], 0x80, 0xff, 0xff)
	req, err := ParseHeader(frame)
	if err != nil {
		t.Fatal(err)
	}
	if !req.UnsupportedVersion || req.CorrelationID != 12345 || req.Version != 99 || req.Body != nil {
		t.Errorf("got %+v", req)
	}
}

func TestParseHeaderAllocatesNothingForAKnownClient(t *testing.T) {
	if raceEnabled {
		t.Skip("allocations are not those of the program under the race detector")
	}
	frame := append(header(KeyProduce, 9, 1, "client"), 1, 2, 3)
	var req Request
	allocations := testing.AllocsPerRun(100, func() {
		if err := ParseHeaderInto(&req, frame, "client"); err != nil {
			t.Fatal(err)
		}
	})
	if allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
	if req.ClientID != "client" {
		t.Errorf("client id %q", req.ClientID)
	}
	if err := ParseHeaderInto(&req, frame, "other"); err != nil || req.ClientID != "client" {
		t.Errorf("after another client id: %q, %v", req.ClientID, err)
	}
}

func TestResponseHeaderIsVersionZeroForApiVersionsOnly(t *testing.T) {
	for _, test := range []struct {
		name    string
		body    kmsg.Response
		version int16
		prefix  int // bytes between correlation id and body
	}{
		{"Metadata before flexible versions", kmsg.NewPtrMetadataResponse(), 8, 0},
		{"Metadata with flexible versions", kmsg.NewPtrMetadataResponse(), 9, 1},
		{"ApiVersions before flexible versions", kmsg.NewPtrApiVersionsResponse(), 2, 0},
		{"ApiVersions with flexible versions", kmsg.NewPtrApiVersionsResponse(), 3, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			frame := flatten(EncodeResponse(test.version, 77, test.body))
			if length := binary.BigEndian.Uint32(frame); int(length) != len(frame)-4 {
				t.Errorf("length prefix %d of a frame of %d bytes", length, len(frame))
			}
			if id := binary.BigEndian.Uint32(frame[4:]); id != 77 {
				t.Errorf("correlation id %d", id)
			}
			want := test.body.AppendTo(nil)
			if got := frame[8+test.prefix:]; string(got) != string(want) {
				t.Errorf("body %x, want %x", got, want)
			}
		})
	}
}

func FuzzParseHeader(f *testing.F) {
	f.Add(header(KeyProduce, 9, 1, "client"))
	f.Add(header(KeyApiVersions, 99, 1, "client"))
	f.Add(withClientIDLength(KeyMetadata, 1, -7530))
	f.Add(append(header(KeyMetadata, 9, 1, "c"), 2, 0, 1, 'x'))
	f.Fuzz(func(t *testing.T, frame []byte) {
		req, err := ParseHeader(frame)
		if err != nil {
			var malformed *MalformedError
			var unsupported *UnsupportedVersionError
			if !errors.As(err, &malformed) && !errors.As(err, &unsupported) {
				t.Fatalf("an untyped error: %v", err)
			}
			return
		}
		api, ok := LookupAPI(req.Key)
		if !ok || !api.Serves(req.Version) && !req.UnsupportedVersion {
			t.Fatalf("key %d version %d passed", req.Key, req.Version)
		}
		if len(req.Body)+len(req.ClientID)+8 > len(frame) {
			t.Fatal("more came out than went in")
		}
	})
}

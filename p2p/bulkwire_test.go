package p2p

import (
	"errors"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

func FuzzBulkHeader(f *testing.F) {
	for _, h := range []bulkHeader{{bulkOpen, 5}, {bulkData, maxBulkData}, {bulkEnd, 0}, {bulkReady, 0}, {bulkData, 0}, {0, 0}} {
		f.Add(h.append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < bulkHeaderSize {
			return
		}
		b = b[:bulkHeaderSize]
		h, err := parseBulkHeader(b)
		if err != nil {
			if !errors.Is(err, wire.ErrMalformed) {
				t.Errorf("error %v", err)
			}
			return
		}
		if again := h.append(nil); string(again) != string(b) {
			t.Errorf("%x was read as %+v, which is %x", b, h, again)
		}
		if h.kind != bulkData && h.length > maxProtocolName {
			t.Errorf("%+v has more to read than any message but data", h)
		}
	})
}

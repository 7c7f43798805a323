package bulk

import (
	"errors"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

func FuzzBulkHeader(f *testing.F) {
	for _, h := range []header{
		{kindOpen, 5},
		{kindData, maxData},
		{kindEnd, 0},
		{kindReady, 0},
		{kindData, 0},
		{0, 0},
	} {
		f.Add(h.append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < headerSize {
			return
		}
		b = b[:headerSize]
		h, err := parseHeader(b)
		if err != nil {
			if !errors.Is(err, wire.ErrMalformed) {
				t.Errorf("error %v", err)
			}
			return
		}
		if again := h.append(nil); string(again) != string(b) {
			t.Errorf("%x was read as %+v, which is %x", b, h, again)
		}
		if h.kind != kindData && h.length > maxProtocolName {
			t.Errorf("%+v has more to read than any message but data", h)
		}
	})
}

package slot

import (
	"errors"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

func TestMarks(t *testing.T) {
	for _, c := range []struct {
		name                  string
		contributors, against Bitmap
		fits                  bool
		marked                Bitmap // over what Contributors is over; nil: none
	}{
		{"nobody is marked", Bitmap{0b1011}, nil, true, nil},
		{"the third contributor", Bitmap{0b1011}, Bitmap{0b100}, true, Bitmap{0b1000}},
		{"all", Bitmap{0b1011}, Bitmap{0b111}, true, Bitmap{0b1011}},
		{"over two bytes", Bitmap{0b10000000, 1}, Bitmap{0b10}, true, Bitmap{0, 1}},
		{"a bitmap of nobody", Bitmap{0b1011}, Bitmap{0}, false, nil},
		{"one more than contribute", Bitmap{0b1011}, Bitmap{0b1000}, false, nil},
		{"a byte too many", Bitmap{0b1011}, Bitmap{0b100, 0}, false, nil},
	} {
		s := Segment{Range: Range{End: 5}, Contributors: c.contributors, Against: c.against, Root: fill(1)}
		if got := s.MarksFit(); got != c.fits {
			t.Errorf("%s: fits: %v", c.name, got)
		}
		if got := s.Marked(); c.fits && string(got) != string(c.marked) {
			t.Errorf("%s: %08b are marked, want %08b", c.name, got, c.marked)
		}
		b := appendSegments(nil, []Segment{s})
		r := wire.NewReader(b)
		readSegments(r, 8*len(c.contributors))
		if err := r.Done(); (err == nil) != c.fits || err != nil && !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%s: read: %v", c.name, err)
		}
	}
}

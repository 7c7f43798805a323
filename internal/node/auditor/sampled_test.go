package auditor

import (
	"math"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/allreduce/audit"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// What a quorum checks of each segment is told as it is: not what the run asks for, where that is
// too dear, and of the segment of which the least is checked.
func TestWhatWasSampledIsTold(t *testing.T) {
	h := newHouse(t)
	enough, dear := Sampled{Slot: 3, Samples: 2, Of: 2}, Sampled{Slot: 3, Samples: 6, Of: 24, Whole: true}
	less, four := Sampled{Slot: 3, Samples: 6, Of: 24, Why: tooDear}, Sampled{Slot: 3, Samples: 4, Of: 24, Whole: true}
	all := Sampled{Slot: 3, Samples: 2, Whole: true}
	for name, c := range map[string]struct {
		asked, quorum int
		want          [2]Sampled // after the segment with 2 samples, and after that with 3
	}{
		"too dear":    {24, 3, [2]Sampled{dear, less}},
		"enough":      {2, 3, [2]Sampled{enough, enough}},
		"one elector": {24, 1, [2]Sampled{four, four}},
		"all":         {math.MaxInt, 3, [2]Sampled{all, all}},
	} {
		a := h.auditor("e")
		a.cfg.Samples = c.asked
		if got := a.Sampled(); got != nil {
			t.Errorf("%s: at first %+v", name, got)
		}
		for i, s := range h.reduce(false).segments {
			if _, err := a.draw(audit.Statement{
				Owner: "o", Slot: h.offer.Slot, Range: s.Range, Root: s.Root, Offers: []slot.Offer{h.offer},
			}, share{2, c.quorum}, 0, secret()); err != nil {
				t.Fatal(err)
			}
			if got := a.Sampled(); *got != c.want[i] {
				t.Errorf("%s: after segment %d: %+v, want %+v", name, i, *got, c.want[i])
			}
		}
		a.taken.note(2, 0, 9, c.asked, c.quorum) // of a slot before
		if got := a.Sampled(); *got != c.want[1] {
			t.Errorf("%s: after what came late: %+v", name, *got)
		}
		a.taken.note(4, 9, 9, 24, 3)
		if got, want := a.Sampled(), (Sampled{Slot: 4, Samples: 24, Of: 24, Whole: true}); *got != want {
			t.Errorf("%s: in the next slot %+v", name, *got)
		}
	}
}

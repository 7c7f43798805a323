package hostile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

// fails has peer-5 fail in some slots, after each of which the first so many of the honest peers
// leave it out of so many further ones as out says.
func (s *Story) fails(t *testing.T, by int, out func(i int) uint64, slots ...uint64) {
	t.Helper()
	var deeds strings.Builder
	for _, slot := range slots {
		committed := eventlog.Line{Event: "slot.committed", Slot: slot}
		s.Honest[0].Lines = append(s.Honest[0].Lines, planned(slot, 4), committed)
	}
	for i, slot := range slots {
		fmt.Fprintf(&deeds, "slot %d: auditors are shown nothing\n", slot)
		for k := range s.Honest[:by] {
			p := &s.Honest[k]
			p.Lines = append(p.Lines, eventlog.Line{
				Event: "peer.suspected", About: "peer-5", Slot: slot, Until: slot + out(i),
			})
		}
	}
	s.did(t, deeds.String())
}

// TestWhoFailsIsLeftOut: newcomers that fail again and again are left out of more slots each time,
// and nobody needs anything of them meanwhile.
func TestWhoFailsIsLeftOut(t *testing.T) {
	doubled, always := func(i int) uint64 { return 1 << i }, func(n uint64) func(int) uint64 {
		return func(int) uint64 { return n }
	}
	for _, c := range []struct {
		name  string
		by    int
		out   func(i int) uint64
		slots []uint64
		ok    bool
		says  string
	}{
		{"for longer each time", 4, doubled, []uint64{6, 8, 11, 16}, true, "of up to 8 slots"},
		{"no longer", 4, always(1), []uint64{6, 8, 10}, false, "left out 3 times by now, and was left out of 1"},
		{"too short", 4, always(2), []uint64{6, 9, 12, 15}, false, "4 times by now, and was left out of 2"},
		{"never", 0, always(1), []uint64{6, 7, 8}, false, "left out 3 times by now, and was left out of 0"},
		{"too seldom", 0, always(1), []uint64{6, 7}, true, NotChecked},
		{"in word only", 4, doubled, []uint64{6, 8, 11, 13}, false, "out of slot 13"},
		{"by some", 3, doubled, []uint64{6, 8, 11, 13}, true, "of up to 8 slots"},
		{"who is late", 4, doubled, []uint64{6, 8, 11, 12}, true, "of up to 8 slots"},
	} {
		s := siege(t)
		s.OutLonger = true
		s.fails(t, c.by, c.out, c.slots...)
		got := s.checkLeftOut(s.steps())
		if said := strings.Join(got.Faults, "; "); (said == "") != c.ok || !strings.Contains(said+got.Fine, c.says) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

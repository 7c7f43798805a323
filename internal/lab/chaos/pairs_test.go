package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// paced is a runner whose slots took so many seconds each, the first one from begin on.
func paced(begin time.Time, seconds ...float64) *runner {
	r := paper(4)
	r.cfg.Kinds = lab.Names[Kind]{Pair}
	for i, s := range seconds {
		begin = begin.Add(time.Duration(s * float64(time.Second)))
		r.ledger.commits[uint64(i+1)] = begin
	}
	return r
}

// A cut pair may make slots 1.3 times as long. Without the check a run with a pair that nobody
// relays for would pass, however slow it is.
func TestACutPairCostsLittle(t *testing.T) {
	begin := time.Unix(1000, 0)
	pair := func(from, to float64) Injected {
		at := func(s float64) time.Time { return begin.Add(time.Duration(s * float64(time.Second))) }
		f := Fault{Kind: Pair}
		return Injected{Fault: f, Victims: []int{1, 2}, began: at(from), lifted: at(to), over: at(to + 2)}
	}
	// two that the check does not look at, six undisturbed ones, and those with the cut pair
	with := func(cut ...float64) *runner {
		return paced(begin, append([]float64{1, 1, 1, 1, 1, 1, 1, 1}, append(cut, 1)...)...)
	}
	slow := with(1.5, 1.5, 1.5, 1.5, 1.5, 1.5)
	slow.done = []Injected{pair(8, 17.1)}
	good := with(7, 7, 1.2, 1.2, 1.2, 1.2)
	good.done = []Injected{pair(8, 26.9)}
	learnt := with(9, 7, 1.9, 1.9, 1.4, 1, 1.5, 1.1, 1, 1, 1, 1) // between 1.1 and 1.4 times
	learnt.done = []Injected{pair(8, 36.9)}
	few := with(1.5, 1.5, 1.5, 1.5, 1.5)
	few.done = []Injected{pair(8, 15.6)}
	held := with(1, 1, 1, 9, 9, 9)
	held.done, held.gate.opened = []Injected{pair(8, 38.1)}, map[uint64]time.Time{}
	for n := range uint64(3) { // it waited for its schedule
		held.gate.opened[12+n] = begin.Add(time.Duration(19+9*n) * time.Second)
	}
	among := with(1.5, 1.5, 1.5, 1.5, 1.5, 1.5)
	among.cfg.Kinds, among.done = append(among.cfg.Kinds, Kill), slow.done
	also := with(1.5, 1.5, 1.5, 1.5, 1.5, 1.5)
	also.done = []Injected{pair(8, 17.1), {Fault: Fault{Kind: Kill}, began: begin.Add(10 * time.Second)}}
	for name, c := range map[string]struct {
		*runner
		ok   bool
		says string
	}{
		"half as long again":       {slow, false, "1.50 s (median of 6), an undisturbed one 1.00 s: 1.50 times"},
		"a fifth longer":           {good, true, "1.20 times"},
		"the median lies between":  {learnt, true, "1.25 times"},
		"too few slots":            {few, false, "fewer than 6 slots"},
		"held back":                {held, true, "1.00 times"},
		"one kind among several":   {among, true, "1.50 times"},
		"another fault beside it":  {also, false, "fewer than 6 slots"},
		"nobody asked for a pair":  {paper(4), true, ""},
		"nothing came of the pair": {paced(begin, 1, 1, 1), false, "fewer than 6 slots"},
	} {
		if got := c.checkPairs(); got.OK != c.ok || !strings.Contains(got.Detail, c.says) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A pair that is asked for alone is cut once, for half of the slots. If it were cut as other faults
// are, the schedule would hold the swarm back, and few slots would tell how long they take.
func TestAPairAloneIsCutForLong(t *testing.T) {
	for _, kind := range []Kind{Pair, FlapPair} {
		for slots := uint64(minSlots); slots < 100; slots++ {
			c := Config{Seed: 3, Peers: 5, Slots: slots, Kinds: lab.Names[Kind]{kind}}
			got := c.schedule()
			if len(got) != 1 || got[0].Kind != kind || got[0].Slots != slots/2 || got[0].Slot < quietFirst ||
				got[0].Slot+got[0].Slots > slots-atGate {
				t.Errorf("%s in %d slots: %+v", kind, slots, got)
			}
		}
	}
	c := Config{Seed: 3, Peers: 5, Slots: 24, Kinds: lab.Names[Kind]{Pair, Kill}}
	if got := c.schedule(); len(got) != 6 {
		t.Errorf("among other kinds: %+v", got)
	}
}

package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// TestApartMeetsAfterOneEnd: the smaller side is cut off, and its contributions weigh more. The cut
// is over once one side has ended the run and the other one has done enough to outweigh it; with
// trust byzantine it waits, and cannot.
func TestApartMeetsAfterOneEnd(t *testing.T) {
	const run, ended = p2pdiloco.PhaseRunning, p2pdiloco.PhaseEnded
	for _, c := range []struct {
		name          string
		trust         string
		others, cut   p2pdiloco.Phase
		fork          string
		slot          uint64
		gone          bool // the others' processes have ended
		late, over    bool
		heavy, victim int
		inVain        string // what is said of it
	}{
		{"the others end, and the fork goes on", "crash", ended, run, "it forked", 46, false, false, true, 2, 2, ""},
		{"their processes are gone", "crash", "", run, "it forked", 46, true, false, true, 2, 2, ""},
		{"the others have not ended", "crash", run, run, "it forked", 46, false, false, false, 2, 2, ""},
		{"the fork has done too little", "crash", ended, run, "it forked", 45, false, false, false, 2, 2, ""},
		{"there is no fork", "crash", ended, run, "", 40, false, false, false, 2, 2, ""},
		{"nor will there be any", "crash", ended, run, "", 40, false, true, true, 2, 2, noBranch},
		{
			"a branch that does too little", "crash", ended, run, "it forked", 45, false, true, true, 2, 2,
			"no side had ended",
		},
		{"the other way round", "crash", run, ended, "", 60, false, false, false, 2, 2, ""},
		{"a minority waits", "byzantine", ended, run, "", 40, false, false, true, 2, 1, ""},
	} {
		r := paper(4)
		r.cfg.Trust, r.cfg.Kinds = c.trust, []Kind{Apart}
		f := &fault{Injected: Injected{Fault: Fault{Kind: Apart}, BegunSlot: 40, began: time.Now()}}
		if f.victims = r.victims(f); len(f.victims) != c.victim {
			t.Errorf("%s: %d are cut off", c.name, len(f.victims))
		}
		if c.late {
			f.began = f.began.Add(-time.Hour)
		}
		heavy := 0
		for _, p := range r.nodes {
			p.status.Phase, p.gone = c.others, c.gone
			heavy += len(r.weight(p)) / 2
		}
		for _, p := range f.victims {
			p.hurt, p.gone = f, false
			p.status = p2pdiloco.Status{Phase: c.cut, Provisional: c.fork, Slot: c.slot}
		}
		over := r.oneSideEnded(f)
		if over != c.over || heavy != c.heavy {
			t.Errorf("%s: over %v, %d heavy peers", c.name, over, heavy)
		}
		said := strings.Join(append(r.odd, r.light...), "; ")
		if !strings.Contains(said, c.inVain) || (said == "") != (c.inVain == "") {
			t.Errorf("%s: it says %q", c.name, said)
		}
	}
}

// A run with the kind Apart ends with it, early enough for the smaller side to outweigh the others.
func TestApartComesLast(t *testing.T) {
	for slots, want := range map[uint64]uint64{12: 4, 60: 52, minSlots: quietFirst} {
		if got := Schedule(3, 6, slots, []Kind{Apart}); len(got) != 1 || got[0].Kind != Apart || got[0].Slot != want {
			t.Errorf("of %d slots: %+v", slots, got)
		}
	}
	all := Schedule(3, 6, 60, []Kind{Kill, Apart})
	if last := all[len(all)-1]; last.Kind != Apart || len(all) < 2 {
		t.Errorf("with kills: %+v", all)
	}
}

// TestAPartitionMakesABranch: with trust crash a partition that is longer than it takes to fork
// goes on until a side has forked, or for so long that this comes no more, which is said.
func TestAPartitionMakesABranch(t *testing.T) {
	const long = forkTime + 3.5
	for _, c := range []struct {
		name    string
		trust   string
		seconds float64
		ago     time.Duration
		fork    string
		over    bool
		inVain  string
	}{
		{"it is not over", "crash", long, 23 * time.Second, "it forked", false, ""},
		{"a side has forked", "crash", long, 24 * time.Second, "it forked", true, ""},
		{"none has yet", "crash", long, 49 * time.Second, "", false, ""},
		{"none will", "crash", long, 50 * time.Second, "", true, noBranch},
		{"it is short", "crash", 8, 8 * time.Second, "", true, ""},
		{"they wait", "byzantine", long, 24 * time.Second, "", true, ""},
	} {
		r := paper(4)
		r.cfg.Trust, r.cfg.Slots = c.trust, 14
		r.suffer(Partition, 3, 4)
		f := r.active[0]
		f.Seconds, f.began, r.nodes[3].status.Provisional = c.seconds, time.Now().Add(-c.ago), c.fork
		over, said := r.due(f), strings.Join(append(r.odd, r.light...), "; ")
		if over != c.over || !strings.Contains(said, c.inVain) || (said == "") != (c.inVain == "") {
			t.Errorf("%s: over %v, and it says %q", c.name, over, said)
		}
	}
}

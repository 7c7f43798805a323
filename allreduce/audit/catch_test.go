package audit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
)

// defaultSamples is the default of audit_samples with trust byzantine.
const defaultSamples = 24

// An owner that changes 2% of its segment in each slot, in one place and in whole samples, which is
// the least that can be seen of it, is caught within 10 slots with p > .99. So is one that changes
// everything in the first slot, and one that changes 10% within three slots nearly always. f of the
// electors lie: they take no samples, or tell nobody. The others, who are a quorum, share 24. So p
// is 1 - .98^240 = .992 for large segments.
func TestAnOwnerThatChangesLittleIsCaught(t *testing.T) {
	const runs = 4000
	for _, n := range []int{4, 7, 10, 31} {
		f := (n - 1) / 3
		for _, c := range []struct {
			share float64
			slots int
			least float64
		}{{.02, 10, .99}, {.1, 3, .99}, {1, 1, 1}} {
			t.Run(fmt.Sprintf("%d electors, %d liars, %v in %d slots", n, f, c.share, c.slots), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(n), uint64(c.slots)))
				p := testParams(2<<20, 65_536) // 8 MiB: the eighth of a model of 64 MiB
				seg, err := New(p, Statement{Owner: "a", Slot: testSlot, Range: slotRange(p), Offers: offers(3)})
				if err != nil {
					t.Fatal(err)
				}
				caught := 0
				for range runs {
					if caughtWithin(seg, rng, n-f, c.slots, c.share) {
						caught++
					}
				}
				if got := float64(caught) / runs; got < c.least {
					t.Errorf("caught in %.4f of the runs, want %v", got, c.least)
				}
			})
		}
	}
}

// caughtWithin says whether one of so many honest electors takes a sample that was changed.
func caughtWithin(seg *Segment, rng *rand.Rand, honest, slots int, share float64) bool {
	each := (defaultSamples + honest - 1) / honest
	count := seg.SampleCount()
	changed := uint64(math.Ceil(share * float64(count)))
	size := seg.sample(0).Range.Len()
	for range slots {
		begin := uint64(rng.IntN(count - int(changed) + 1))
		for range honest {
			for _, s := range seg.Samples(each, rng) {
				if at := s.Range.Begin / size; at >= begin && at < begin+changed {
					return true
				}
			}
		}
	}
	return false
}

// The same with real bytes: what an elector does with an owner that lies in one slot, sample by
// sample, until it has the proof.
func TestAnAuditFromSampleToProof(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	p := testParams(1<<18, 1<<15)
	p.Aggregator = allreduce.Median
	w := newWorld(t, p, noise(rng, 1<<18, 6), 0, 8)
	samples := w.Samples(1<<30, nil)
	for _, s := range samples[10:13] { // 3 of 64
		b := w.bytes(s.Range)
		for i := 3; i < len(b); i += 4 {
			b[i] ^= 0x80 // -1 times it
		}
	}
	w.sign()
	for slots := 1; ; slots++ {
		for _, s := range w.Samples(defaultSamples, rng) {
			openings := w.openings(t, s.Range)
			want, err := w.Recompute(s.Range, openings)
			if err != nil {
				t.Fatal(err)
			}
			if block, differs := w.Compare(s.Range, want, w.bytes(s.Range)); differs {
				proof, err := w.ProveOutcome(block, openings, w.opened(t, s.Range))
				if err != nil {
					t.Fatal(err)
				}
				convicts(t, p, proof, w.Owner)
				return
			}
		}
		if slots == 10 {
			t.Fatal("not caught in 10 slots")
		}
	}
}

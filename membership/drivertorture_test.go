package membership

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/disk/powerfs"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// onDiskBefore is DESIGN's list: what must be on disk before something is said or done.
var onDiskBefore = []struct {
	name string
	of   func(p *powerPeer, e wire.Entry) bool
	lose func(m wire.Message) bool
}{
	{
		"PROMISE the ballot", func(_ *powerPeer, e wire.Entry) bool { _, ok := e.(wire.EntryPromise); return ok },
		firstProposal,
	},
	{"HAVE the outcome", nil, nil},
	{"PROPOSE vote and record", func(p *powerPeer, e wire.Entry) bool { return p.votes(e, true) }, nil},
	{"VOTE vote and record", func(p *powerPeer, e wire.Entry) bool { return p.votes(e, false) }, nil},
	{
		"VOTE after a promise", func(p *powerPeer, e wire.Entry) bool {
			v, ok := e.(wire.EntryVote)
			return ok &&
				v.Ballot > 0
		},
		firstProposal,
	},
	{"OFFER seq", func(_ *powerPeer, e wire.Entry) bool { o, ok := e.(wire.EntryOffer); return ok && o.Seq > 1 }, nil},
	{
		"a fork signature its mark", func(_ *powerPeer, e wire.Entry) bool { _, ok := e.(wire.EntryFork); return ok },
		nil,
	},
	{"applying the certificate", func(_ *powerPeer, e wire.Entry) bool {
		c, ok := e.(wire.EntryCommit)
		return ok &&
			c.Record.Slot == 2
	}, nil},
}

// votes says whether an entry is a vote of the second slot, on this peer's own proposal or
// another's.
func (p *powerPeer) votes(e wire.Entry, own bool) bool {
	v, ok := e.(wire.EntryVote)
	return ok && v.Record.Slot == 2 && v.Record.Kind == slot.Step && (p.driver.View().Leader == p.signer.ID()) == own
}

// firstProposal is what must be lost for a second ballot.
func firstProposal(m wire.Message) bool {
	b, ok := m.Body.(wire.Draft)
	return ok && b.Record.Slot == 2 && b.Ballot == 0
}

var powerPoints = []struct {
	name string
	kind powerfs.Kind
	cut  powerfs.Cut
	file bool // only where a whole file is made
}{
	{"before the write", powerfs.Write, powerfs.Before, false},
	{"before the sync", powerfs.Sync, powerfs.Before, false},
	{"after the sync", powerfs.Sync, powerfs.After, false},
	{"before the name", powerfs.SyncDir, powerfs.Before, true},
	{"after the name", powerfs.SyncDir, powerfs.After, true},
}

// A peer of three loses power before and after each write of the list, comes back on what its disk
// then holds, and the run goes on to its end: nobody ever contradicts what was said, by itself or
// by the others, and what was said is on disk.
func TestPowerCutAtEachWriteOfTheList(t *testing.T) {
	t.Parallel()
	seeds := testutil.Choose[uint64](1, 1, 20)
	for _, what := range onDiskBefore {
		for _, at := range powerPoints {
			if at.file && what.of != nil {
				continue
			}
			t.Run(what.name+"/"+at.name, func(t *testing.T) {
				for seed := range seeds {
					synctest.Test(t, func(t *testing.T) {
						powerCut(t, point{of: what.of, kind: at.kind, cut: at.cut, lose: what.lose}, 4*seed, false)
					})
				}
			})
		}
	}
}

// The same, and all three lose power at that moment.
func TestPowerCutOfAllAtEachWriteOfTheList(t *testing.T) {
	t.Parallel()
	seeds := testutil.Choose[uint64](1, 1, 10)
	for _, what := range onDiskBefore {
		t.Run(what.name, func(t *testing.T) {
			for _, at := range powerPoints[:3] {
				for seed := range seeds {
					synctest.Test(t, func(t *testing.T) {
						powerCut(t, point{of: what.of, kind: at.kind, cut: at.cut, lose: what.lose}, 4*seed+4, true)
					})
				}
			}
		})
	}
}

func powerCut(t *testing.T, at point, seed uint64, all bool) {
	t.Helper()
	w := newPowerWorld(newSwarm(t, simRules(5, 3)), at)
	peers := []*powerPeer{w.peer(1), w.peer(2), w.peer(3)}
	victim := w.awaitVictim()
	if err := victim.driver.Err(); err != nil && !errors.Is(err, powerfs.ErrPowerCut) {
		t.Fatalf("the driver ended with %v", err)
	}
	for _, p := range peers {
		if all || p == victim {
			p.die(seed)
		}
	}
	// back at once, or when the others have noticed
	time.Sleep(time.Duration(seed) * time.Second / 2)
	for _, p := range peers {
		if all || p == victim {
			p.boot()
		}
	}
	for _, p := range peers {
		p.await(fmt.Sprintf("the end, seed %d", seed), func(v View) bool { return v.Done })
	}
	w.mu.Lock()
	for _, fault := range w.mu.watch.faults {
		t.Errorf("seed %d: %s", seed, fault)
	}
	w.mu.Unlock()
	sims := make([]*simPeer, len(peers))
	for i, p := range peers {
		sims[i] = p.simPeer
	}
	sameChain(t, sims...)
	for _, p := range peers {
		p.die(1)
	}
}

// awaitVictim waits until somebody's power is gone.
func (w *powerWorld) awaitVictim() *powerPeer {
	for range 60_000 {
		time.Sleep(10 * time.Millisecond) // of the bubble
		w.mu.Lock()
		v := w.mu.victim
		w.mu.Unlock()
		if v != nil && v.fs.Down() {
			return v
		}
	}
	w.t.Fatal("what this test waits for did not happen")
	return nil
}

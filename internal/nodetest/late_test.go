package nodetest

import (
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

const (
	heavyElements = 100_000 // 800 kB of state with the momentum: four pieces
	// bytes a second, of each of three donors: an outcome a slot, and not much more
	donorRate = 200_000
)

// fetching runs three members and a peer that comes late to a model so large that its state takes
// seconds to fetch, with frequent checkpoints.
func fetching(t *testing.T, f func(s *Swarm, late *Peer, members []*Peer)) {
	Run(t, Spec(1000, 3), 4, func(s *Swarm) {
		for _, p := range s.Peers {
			b := p.Trainer.(*Bowl)
			b.Size, b.Noisy, b.Pace = heavyElements, true, 40*time.Millisecond // a slot takes .9 s
			p.Config = func(c *p2pdiloco.Config) {
				c.CheckpointEvery, c.KeepCheckpoints, c.StateBytesPerSecond = 1, 1, donorRate
			}
		}
		s.Start(s.Peers[:3]...)
		s.Reach(3, s.Peers[:3]...)
		f(s, s.Peers[3], s.Peers[:3])
	})
}

// has waits until a peer has fetched more than some permille of its state.
func has(s *Swarm, p *Peer, permille int64) {
	s.T.Helper()
	s.Until(time.Minute, "fetching", func() bool { // pieces come every half second
		n := p.Node.Load()
		if n == nil {
			return false
		}
		at := n.Status().Sync
		return at != nil && at.Bytes > at.Total*permille/1000
	})
}

// joins starts a peer, and waits until it has more than some permille of its state. No slot ends
// meanwhile: the newest state would be at one member for a moment, and it would ask that one alone.
func joins(s *Swarm, late *Peer, members []*Peer, permille int64) {
	s.T.Helper()
	for _, p := range members {
		p.Trainer.(*Bowl).Frozen.Store(true)
	}
	time.Sleep(2 * time.Second)
	s.Start(late)
	has(s, late, permille)
	for _, p := range members {
		p.Trainer.(*Bowl).Frozen.Store(false)
	}
}

// synced waits until a peer has its state, once more if it had one, and returns the event.
func synced(s *Swarm, p *Peer, before int) p2pdiloco.Event {
	s.T.Helper()
	s.Until(time.Minute, "synced", func() bool { return len(p.Events("state.synced")) > before })
	return p.Events("state.synced")[before]
}

// trainsAlong waits until a peer has contributed to a slot once more, and checks that all states
// are equal. It does not wait for the run's end.
func trainsAlong(s *Swarm, p *Peer) {
	s.T.Helper()
	before := p.Applied()
	s.Until(time.Minute, "training along", func() bool { return s.ContributedAfter(p, before) })
	s.Equal()
}

// A joiner fetches a state over many slots: its donors keep the checkpoint that it began with
// although they have made newer ones, and the outcomes that lead from it to theirs. Nobody waits
// for it.
func TestALateJoinerIsNotOvertaken(t *testing.T) {
	fetching(t, func(s *Swarm, late *Peer, members []*Peer) {
		joins(s, late, members, 0)
		e := synced(s, late, 0)
		if sources := e.Fields["sources"].(map[string]int64); len(sources) != len(members) {
			t.Errorf("it came from %v", sources)
		}
		if at := members[0].Applied(); at < e.Fields["slot"].(uint64)+2 {
			t.Errorf("the state of slot %v came at slot %d: nothing was outrun", e.Fields["slot"], at)
		}
		trainsAlong(s, late)
		if n := len(late.Events("state.synced")); n != 1 {
			t.Errorf("the state was fetched %d times", n)
		}
	})
}

// A joiner that is killed while it fetches, and one of its donors with it, begins anew when it
// comes back, and nothing of the first fetch stays on its disk.
func TestAKilledJoinerBeginsAnew(t *testing.T) {
	fetching(t, func(s *Swarm, late *Peer, members []*Peer) {
		s.Start(late)
		has(s, late, 500)
		s.Kill(late, members[2])
		s.Restart(late)
		e := synced(s, late, 0)
		if e.Fields["resumed"].(int64) != 0 {
			t.Errorf("%v bytes were resumed", e.Fields["resumed"])
		}
		s.Reach(e.Fields["slot"].(uint64)+2, late) // and the outcomes since are there, too
		s.Equal()
		left, err := filepath.Glob(filepath.Join(late.Dir, "state", "tmp-[0-9]*"))
		if err != nil || len(left) > 0 {
			t.Errorf("left over: %v, %v", left, err)
		}
	})
}

// A donor that dies while a state is fetched from it is replaced, and named in an event and the
// status.
func TestADonorThatDiesIsNamed(t *testing.T) {
	fetching(t, func(s *Swarm, late *Peer, members []*Peer) {
		var status atomic.Pointer[p2pdiloco.SyncStatus]
		late.OnEvent = func(e p2pdiloco.Event) {
			if e.Name == "donor.dropped" {
				status.Store(late.Node.Load().Status().Sync)
			}
		}
		joins(s, late, members, -1) // each gives its first piece
		dead := s.ID(members[1])
		s.Kill(members[1])
		synced(s, late, 0)
		if drops := late.Events("donor.dropped"); !slices.ContainsFunc(drops, func(e p2pdiloco.Event) bool {
			return e.Fields["about"] == dead && e.Fields["reason"] != ""
		}) {
			t.Errorf("dropped: %v", drops)
		}
		if at := status.Load(); at == nil || !slices.ContainsFunc(at.Dropped,
			func(d p2pdiloco.DroppedDonor) bool { return d.Peer == dead }) {
			t.Errorf("status %+v", at)
		}
		trainsAlong(s, late)
	})
}

// A peer that has lost its states asks for what the others have now, and does not wait for states
// that nobody has any more.
func TestWhoLostItsStatesSoonHasOneAgain(t *testing.T) {
	Once(t, 1000, 3, func(s *Swarm) {
		p := s.Peers[1]
		s.Start(s.Peers...)
		s.Reach(3, s.Peers...)
		s.Kill(p)
		Remove(t, p, "state")
		s.Reach(s.Peers[0].Applied()+30, s.But(p)...) // what p knows of is pruned everywhere
		before := len(p.Events("state.synced"))
		s.Restart(p)
		began := time.Now()
		synced(s, p, before)
		if d := time.Since(began); d > 9*time.Second { // ten were spent in one vain wait
			t.Errorf("it took %v", d)
		}
		trainsAlong(s, p)
	})
}

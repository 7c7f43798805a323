package p2pdiloco

import (
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// heavy makes the model of a swarm so large that its state takes seconds to fetch, and checkpoints frequent.
func (s *swarm) heavy(elements uint64, donorRate int64) {
	for _, p := range s.peers {
		b := p.trainer.(*bowl)
		b.size, b.noisy, b.pace = elements, true, 40*time.Millisecond // a slot takes .9 s
		p.config = func(c *Config) {
			c.CheckpointEvery, c.KeepCheckpoints, c.StateBytesPerSecond = 1, 1, donorRate
		}
	}
}

const (
	heavyElements = 100_000 // 800 kB of state with the momentum: four pieces
	donorRate     = 200_000 // bytes a second, of each of three donors: an outcome a slot, and not much more
)

// trainsAlong waits until a peer has contributed to a slot once more, and checks that all states are equal. It does not wait for the run's end.
func (s *swarm) trainsAlong(p *simPeer) {
	s.t.Helper()
	before := p.applied()
	s.until(time.Minute, "training along", func() bool { return s.contributedAfter(p, before) })
	s.equal()
}

// A joiner fetches a state over many slots: its donors keep the checkpoint that it began with although they have made newer ones, and
// the outcomes that lead from it to theirs. Nobody waits for it.
func TestALateJoinerIsNotOvertaken(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(1000, 3), 4, func(s *swarm) {
		s.heavy(heavyElements, donorRate)
		late, members := s.peers[3], s.peers[:3]
		s.start(members...)
		s.reach(3, members...)
		s.start(late)
		s.until(time.Minute, "synced", func() bool { return late.had("state.synced") })
		e := late.events("state.synced")[0]
		if at := members[0].applied(); at < e.Fields["slot"].(uint64)+2 {
			t.Errorf("the state of slot %v came at slot %d: nothing was outrun", e.Fields["slot"], at)
		}
		if sources := e.Fields["sources"].(map[string]int64); len(sources) != 3 {
			t.Errorf("it came from %v", sources)
		}
		s.trainsAlong(late)
		if n := len(late.events("state.synced")); n != 1 {
			t.Errorf("the state was fetched %d times", n)
		}
	})
}

// A joiner that is killed while it fetches, and one of its donors with it, goes on where it was when it comes back.
func TestAKilledJoinerGoesOnWhereItWas(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(1000, 3), 4, func(s *swarm) {
		s.heavy(heavyElements, donorRate)
		late, members := s.peers[3], s.peers[:3]
		s.start(members...)
		s.reach(3, members...)
		s.start(late)
		s.until(time.Minute, "half done", func() bool { // no moment of it is missed: pieces come every half second
			n := late.node.Load()
			if n == nil {
				return false
			}
			sync := n.Status().Sync
			return sync != nil && sync.Total > 0 && sync.Bytes > sync.Total/2
		})
		s.kill(late, members[2])
		s.restart(late)
		s.until(time.Minute, "synced", func() bool { return late.had("state.synced") })
		e := late.events("state.synced")[0]
		if e.Fields["resumed"].(int64) < 2*heavyElements {
			t.Errorf("%v bytes were resumed: it began anew", e.Fields["resumed"])
		}
		s.reach(e.Fields["slot"].(uint64)+2, late) // and the outcomes since are there, too
		s.equal()
		if left, err := filepath.Glob(filepath.Join(late.dir, "state", "partial-*")); err != nil || len(left) > 0 {
			t.Errorf("left over: %v, %v", left, err)
		}
	})
}

// A donor that dies while a state is fetched from it is replaced, and named in an event and the status.
func TestADonorThatDiesIsNamed(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(1000, 3), 4, func(s *swarm) {
		s.heavy(heavyElements, donorRate)
		late, members := s.peers[3], s.peers[:3]
		s.start(members...)
		s.reach(3, members...)
		var status atomic.Pointer[SyncStatus]
		late.on = func(e Event) {
			if e.Name == "donor.dropped" {
				status.Store(late.node.Load().Status().Sync)
			}
		}
		s.start(late)
		s.until(time.Minute, "fetching", func() bool {
			n := late.node.Load()
			return n != nil && n.Status().Sync != nil && n.Status().Sync.Bytes > 0
		})
		dead := s.id(members[1])
		s.kill(members[1])
		s.until(time.Minute, "synced", func() bool { return late.had("state.synced") })
		drops := late.events("donor.dropped")
		if !slices.ContainsFunc(drops, func(e Event) bool { return e.Fields["about"] == dead && e.Fields["reason"] != "" }) {
			t.Errorf("dropped: %v", drops)
		}
		if at := status.Load(); at == nil || !slices.ContainsFunc(at.Dropped, func(d DroppedDonor) bool { return d.Peer == dead }) {
			t.Errorf("status %+v", at)
		}
		s.trainsAlong(late)
	})
}

// Who has lost its states asks for what the others have now, and does not wait for states that nobody has any more.
func TestWhoLostItsStatesSoonHasOneAgain(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(1000, 3), 3, func(s *swarm) {
		p := s.peers[1]
		s.start(s.peers...)
		s.reach(3, s.peers...)
		s.kill(p)
		remove(t, p, "state")
		s.reach(s.peers[0].applied()+30, s.but(p)...) // what p knows of is pruned everywhere
		before := len(p.events("state.synced"))
		s.restart(p)
		began := time.Now()
		s.until(time.Minute, "synced", func() bool { return len(p.events("state.synced")) > before })
		if d := time.Since(began); d > 9*time.Second { // ten were spent in one vain wait
			t.Errorf("it took %v", d)
		}
		s.trainsAlong(p)
	})
}

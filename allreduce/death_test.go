package allreduce

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// deathParams give frames that are large beside a hash, and several in each piece.
func deathParams(n int) Params {
	p := testParams(n*16*1024+77, 1024)
	p.Aggregator, p.Clip = TrimmedMean, true
	return p
}

var quietLogger = slog.New(slog.DiscardHandler)

// mortal is a group whose peers can die.
type mortal struct {
	*group
	losses chan slot.PeerID // of all sinks
	deaths sync.WaitGroup
}

func newMortal(t testing.TB, n int) *mortal {
	return newMortalOf(t, deathParams(n), n)
}

func newMortalOf(t testing.TB, p Params, n int) *mortal {
	m := &mortal{group: newGroup(t, p, n, rand.New(rand.NewPCG(uint64(n), 3)))}
	t.Cleanup(m.deaths.Wait)
	m.apart() // a frame that has passed has gone out
	m.listen()
	return m
}

// listen makes one channel of what all sinks hear.
func (m *mortal) listen() <-chan slot.PeerID {
	m.losses = make(chan slot.PeerID, len(m.sinks)*len(m.sinks))
	for _, s := range m.sinks {
		s.losses = m.losses
	}
	return m.losses
}

// dieAfter kills a peer once so many of its frames have passed; hardly any other passes until it is
// dead, however fast the rest would be. Call it before the peer starts.
func (m *mortal) dieAfter(victim, frames int) {
	var passed atomic.Int32
	m.sinks[victim].progress = func() {
		n := int(passed.Add(1))
		if n == max(1, frames) {
			m.deaths.Go(func() { m.kill(victim) })
		}
		if n >= max(1, frames) {
			<-m.engines[victim].ctx.Done()
		}
	}
}

func (m *mortal) kill(victim int) {
	m.net.mu.Lock()
	delete(m.net.mu.engines, peerName(victim))
	m.net.mu.Unlock()
	_ = m.engines[victim].Close()
}

// mourn waits until a living peer has named a victim, or until all have all they need: then nobody
// does.
func (m *mortal) mourn(victim int) {
	m.t.Helper()
	returned := make(chan struct{})
	defer close(returned)
	complete := m.complete(victim, returned)
	for deadline := time.After(time.Minute); ; {
		for i, s := range m.sinks {
			if i != victim && !slices.Contains(m.gone, i) && s.lost()[peerName(victim)] != 0 {
				return
			}
		}
		select {
		case <-m.losses:
		case <-complete:
			return
		case <-deadline:
			m.t.Fatalf("nobody names peer %d", victim)
		}
	}
}

// complete is closed when the running reductions of all who live are complete, unless stop is
// before.
func (m *mortal) complete(victim int, stop <-chan struct{}) <-chan struct{} {
	all := make(chan struct{})
	var living []*Reduction
	for _, r := range m.running {
		if i := m.started[r]; i != victim && !slices.Contains(m.gone, i) {
			living = append(living, r)
		}
	}
	m.deaths.Go(func() {
		for _, r := range living {
			select {
			case <-r.Complete():
			case <-stop:
				return
			}
		}
		close(all)
	})
	return all
}

// bury revises the plan without a victim, everywhere.
func (m *mortal) bury(victims ...int) {
	m.t.Helper()
	m.revise(victims...)
	m.startAll(m.gone...)
}

// sent is what the living have sent, in reductions that were given up as well.
func (m *mortal) sent() (bytes uint64) {
	for r, peer := range m.started {
		if s, _ := r.Traffic(); !slices.Contains(m.gone, peer) {
			bytes += s
		}
	}
	return bytes
}

// undisturbed is what a peer sends if nobody dies, and how many frames pass at it.
func undisturbed(t *testing.T, n int) (bytes uint64, frames int) {
	m := newMortal(t, n)
	var passed atomic.Int32
	m.sinks[0].progress = func() { passed.Add(1) }
	m.startAll()
	m.wait()
	m.check()
	m.group.close()
	return m.sent() / uint64(n), int(passed.Load())
}

// Whenever a peer dies, the survivors end with the same outcome, and it costs them no more than 2/N
// of what they send anyway: what they have done stays done.
func TestDeathCostsItsShare(t *testing.T) {
	for _, n := range []int{4, 8} {
		bytes, frames := undisturbed(t, n)
		for _, percent := range []int{0, 10, 50, 90} {
			t.Run(fmt.Sprintf("%d peers, after %d percent", n, percent), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := newMortal(t, n)
					const victim = 1
					m.dieAfter(victim, frames*percent/100)
					m.startAll()
					m.mourn(victim)
					m.bury(victim)
					m.wait()
					m.check()
					m.group.close() // all that was on its way is counted
					if got, most := m.sent(), uint64(n-1)*bytes*uint64(n+2)/uint64(n); got > most {
						t.Errorf("the survivors sent %d bytes: at most %d are due, %d undisturbed", got, most,
							uint64(n-1)*bytes)
					}
				})
			})
		}
	}
}

// A dead contributor that owns nothing needs no revision: the owners go on without it by
// themselves.
func TestDeathOfAContributor(t *testing.T) {
	for _, frames := range []int{1, 20, 60} {
		synctest.Test(t, func(t *testing.T) {
			m := newMortal(t, 4)
			for _, e := range m.engines {
				e.cfg.Stall = time.Second // an owner waits so long for a stream that does not come
			}
			const victim = 2
			m.plan.Pieces = Pieces(m.params, 0, slices.Delete(slices.Clone(m.plan.Offers), victim, victim+1))
			m.dieAfter(victim, frames)
			m.startAll()
			m.mourn(victim)
			m.running = slices.Delete(m.running, victim, victim+1)
			m.wait()
			m.check()
			for _, s := range m.outcome() {
				if c := s.Contributors.Count(); c < 3 || c == 3 && s.Contributors.Has(victim) {
					t.Errorf("range %v has contributors %v", s.Range, s.Contributors)
				}
			}
			m.group.close()
		})
	}
}

// Two deaths, the second one in the middle of what the first one made necessary.
func TestTwoDeaths(t *testing.T) {
	bytes, frames := undisturbed(t, 8)
	m := newMortal(t, 8)
	m.dieAfter(1, frames/3)
	var doomed atomic.Bool
	m.sinks[6].progress = func() {
		if doomed.CompareAndSwap(true, false) {
			m.deaths.Go(func() { m.kill(6) })
		}
	}
	m.startAll()
	m.mourn(1)
	doomed.Store(true)
	m.bury(1)
	if doomed.CompareAndSwap(true, false) { // nothing passed any more
		m.kill(6)
	}
	m.mourn(6)
	m.bury(6)
	m.wait()
	m.check()
	m.group.close()
	if got, most := m.sent(), 6*bytes*(8+2+2)/8; got > most {
		t.Errorf("the survivors sent %d bytes: at most %d are due", got, most)
	}
}

// A peer dies while a revision is on its way: some have it and send to the peers that inherit,
// others do not know of it yet.
func TestDeathDuringARevision(t *testing.T) {
	for _, knows := range []int{0, 2, 4} {
		m := newMortal(t, 6)
		m.dieAfter(1, 40)
		m.startAll()
		m.mourn(1)
		m.revise(1)
		for _, i := range []int{0, 2, 3, 4, 5}[:knows] {
			m.start(i)
		}
		m.kill(3)
		m.bury(3)
		m.wait()
		m.check()
	}
}

// Two peers that cannot connect cost each other a contribution to their own pieces, and nobody else
// anything.
func TestABrokenPairCostsItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMortal(t, 4)
		const a, b = 0, 3
		apart := func(x, y slot.PeerID) bool {
			return x == peerName(a) && y == peerName(b) || x == peerName(b) && y == peerName(a)
		}
		m.net.wrap = func(local, remote slot.PeerID, s wire.Stream) wire.Stream {
			if apart(local, remote) {
				_ = s.Reset()
			}
			return s
		}
		for _, e := range m.engines {
			e.cfg.Stall = time.Second // an owner waits so long for a stream that does not come
		}
		m.startAll()
		for _, r := range m.running {
			<-r.Settled()
		}
		pair := []*Reduction{m.running[a], m.running[b]}
		m.running = m.running[1:3]
		m.wait()
		m.check()
		for _, s := range m.outcome() {
			owner := m.plan.Pieces[slices.IndexFunc(m.plan.Pieces,
				func(p slot.Piece) bool { return p.Range == s.Range })].Owner
			for i := range m.engines {
				if s.Contributors.Has(i) == apart(owner, peerName(i)) {
					t.Errorf("%s reduced with %v", owner, s.Contributors)
				}
			}
		}
		for i, r := range pair {
			other := m.plan.Pieces[[]int{b, a}[i]].Range
			for _, p := range m.plan.Pieces {
				if _, ok := r.Result(p.Range); ok == (p.Range == other) {
					t.Errorf("one of the pair has %v: %v", p.Range, ok)
				}
			}
		}
		m.group.close()
	})
}

// An owner that has lost most of the group waits for word of who is gone: it may be the one that is
// cut off.
func TestAnOwnerAloneWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMortal(t, 4)
		m.net.size = 1 << 20
		for _, i := range []int{1, 2, 3} {
			delete(m.net.mu.engines, peerName(i))
		}
		m.start(0)
		time.Sleep(2 * time.Minute)
		if len(m.sinks[0].mu.done) > 0 {
			t.Errorf("alone of 4 it states %v", m.sinks[0].mu.done)
		}
		m.revise(1, 2)
		m.start(0)
		synctest.Wait()
		if len(m.sinks[0].mu.done) > 0 {
			t.Errorf("alone of 2 it states %v", m.sinks[0].mu.done)
		}
		m.revise(3)
		m.start(0)
		m.wait()
		m.check()
		m.group.close()
	})
}

// A new leader may not know of the newest revision: its plan gives a piece back to its first owner,
// and a later one moves it anew.
func TestAnOlderDivisionComesBack(t *testing.T) {
	m := newMortal(t, 4)
	m.dieAfter(1, 30)
	first := m.plan
	m.startAll()
	m.mourn(1)
	m.bury(1)
	m.gone = nil
	moved := m.plan
	first.Ballot, moved.Ballot = 1, 1
	moved.Revision++
	m.plan = first
	m.startAll(1)
	for _, s := range m.sinks {
		s.mu.Lock()
		s.mu.done = nil // of the piece's first life; what stands is said again
		s.mu.Unlock()
	}
	m.plan = moved
	m.startAll(1)
	m.wait()
	m.check()
}

// The sink hears again of what is closed when a plan is revised: whoever leads may be another.
func TestStatementsAreRepeated(t *testing.T) {
	m := newMortal(t, 3)
	m.startAll()
	m.wait()
	m.plan.Ballot++
	m.startAll()
	for i, s := range m.sinks {
		if len(s.mu.done) != 2 || s.mu.done[0].Root != s.mu.done[1].Root {
			t.Errorf("peer %d states %v", i, s.mu.done)
		}
	}
}

// A peer that is told that it is gone ends its part.
func TestGoneEndsIt(t *testing.T) {
	m := newMortal(t, 3)
	m.startAll()
	m.revise(0)
	if _, err := m.engines[0].Start(t.Context(), m.plan, m.own[0], m.sinks[0]); err != ErrNotInGroup {
		t.Errorf("got %v", err)
	}
	if m.running[0].ctx.Err() == nil {
		t.Error("it goes on")
	}
	m.running = m.running[1:]
	m.startAll(0)
	m.wait()
	m.check()
}

// What is held stays as it is while owners change, and what is had afterwards is of the new one.
func TestHoldDuringRevisions(t *testing.T) {
	m := newMortal(t, 4)
	m.startAll()
	m.wait()
	r, rng := m.running[0], m.plan.Pieces[1].Range
	held := func() (root slot.Root, ok bool) {
		b, done := r.Hold([]slot.Range{rng})
		defer done()
		root = slot.Hash(b[0])
		runtime.Gosched()
		if slot.Hash(b[0]) != root {
			t.Error("bytes that are held changed")
		}
		return root, b[0] != nil
	}
	root, _ := held()
	stop := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			held()
		}
	})
	m.kill(1)
	m.bury(1)
	m.wait()
	close(stop)
	reader.Wait()
	m.check()
	if got, ok := held(); !ok || got == root {
		t.Error("the moved piece has the old bytes, though a contributor went")
	}
}

// Where a contributor dies, another one may be too many beside those that are left. Owners go on
// without both. They blame the first alone, and the second blames none of them: it is told.
func TestADeathTakesAnotherOneAlong(t *testing.T) {
	const n, dies, other = 6, 5, 4
	for _, frames := range []int{1, 40, 80} {
		t.Run(fmt.Sprintf("after %d frames", frames), func(t *testing.T) {
			m := newMortal(t, n)
			for _, s := range m.sinks {
				s.within = func(set slot.Bitmap) slot.Bitmap {
					if set = slices.Clone(set); !set.Has(dies) {
						set[other/8] &^= 1 << (other % 8)
					}
					return set
				}
			}
			m.dieAfter(dies, frames)
			m.startAll()
			m.mourn(dies)
			m.bury(dies)
			for _, r := range m.running { // owners leave the other one out by themselves
				if m.started[r] == other {
					continue
				}
				select {
				case <-r.Complete():
				case <-time.After(time.Minute):
					t.Fatalf("peer %d does not complete", m.started[r])
				}
			}
			time.Sleep(2 * m.engines[0].hearsay) // by then they would have named it
			m.bury(other)
			m.wait()
			m.check()
			without := 0
			for _, s := range m.outcome() {
				if !s.Contributors.Has(dies) {
					without++
					if s.Contributors.Has(other) {
						t.Errorf("range %v is without the dead one, and with the other", s.Range)
					}
				}
			}
			if without == 0 {
				t.Error("all ranges are with the dead one")
			}
			for i, s := range m.sinks {
				for peer, reason := range s.lost() {
					if i != dies && peer != peerName(dies) && (i != other || reason != Refused) {
						t.Errorf("peer %d names %s for %s", i, peer, reason)
					}
				}
			}
		})
	}
}

package membership

import (
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// recorder checks, at the moment a message leaves, that what it says is on disk.
type recorder struct {
	*simPeer
	mu struct {
		sync.Mutex
		cut   bool
		late  int // messages after the disk failed
		sent  map[slot.MessageType]int
		alive *wire.Alive // the first
	}
}

func (r *recorder) Send(to slot.PeerID, b []byte) {
	r.check(b)
	r.simPeer.Send(to, b)
}

func (r *recorder) Publish(b []byte) {
	r.check(b)
	r.simPeer.Publish(b)
}

func (r *recorder) check(b []byte) {
	t := r.swarm.t
	m, err := wire.Open(b, r.swarm.rules.Run, testVerify)
	if err != nil {
		t.Errorf("sent %v", err)
		return
	}
	saved := load(t, r.disk.ledger)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.cut {
		r.mu.late++
	}
	r.mu.sent[m.Body.Type()]++
	if a, ok := m.Body.(wire.Alive); ok && r.mu.alive == nil {
		r.mu.alive = &a
	}
	tip := saved.Height
	switch body := m.Body.(type) {
	case wire.Offer:
		if saved.OfferSeq < body.Seq {
			t.Errorf("offer %d sent, %d on disk", body.Seq, saved.OfferSeq)
		}
	case wire.Vote:
		if body.Height > tip && (saved.Vote == nil || saved.Vote.Ref != body.Ref ||
			saved.Vote.Record.Hash() != body.Hash || saved.Vote.QC.Hash != body.Hash) {
			t.Errorf("vote %+v sent, %+v on disk", body.Ref, saved.Vote)
		}
	case wire.Have, wire.Draft:
		v := voteIn(body)
		if v.Height > tip && (saved.Have == nil || saved.Have.Ref != v.Ref || saved.Have.Record.Hash() != v.Hash) {
			t.Errorf("%s %+v sent, %+v on disk", wire.TypeName(body.Type()), v.Ref, saved.Have)
		}
	case wire.Propose:
		if body.Height > tip && (saved.Vote == nil || saved.Vote.Record.Hash() != body.Hash) {
			t.Errorf("proposal of height %d sent, %+v on disk", body.Height, saved.Vote)
		}
	case wire.Promise:
		if body.Height > tip && (saved.Promise == nil || saved.Promise.Ballot < body.Ballot) {
			t.Errorf("promise %+v sent, %+v on disk", body.Ref, saved.Promise)
		}
	case wire.ForkVote:
		if body.Height > tip && (saved.Fork == nil || saved.Fork.Record.Hash() != body.Hash) {
			t.Errorf("fork signature sent, %+v on disk", saved.Fork)
		}
	}
}

func (r *recorder) Save(entries []wire.Entry) error {
	err := r.disk.ledger.Save(entries)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.cut = r.mu.cut || err != nil
	return err
}

func (r *recorder) Record(height uint64) (wire.Commit, error) { return r.disk.ledger.Record(height) }

func (r *recorder) Load() (wire.Saved, error) { return r.disk.ledger.Load() }
func (r *recorder) Close() error              { return r.disk.ledger.Close() }

// startRecorded starts a peer whose store and transport are watched.
func (s *swarm) startRecorded(n byte, disk *simDisk) *recorder {
	r := &recorder{simPeer: &simPeer{swarm: s, signer: newTestSigner(n), disk: disk, cut: map[slot.PeerID]bool{}}}
	r.mu.sent = map[slot.MessageType]int{}
	s.run(r.simPeer, DriverConfig{Store: r, Transport: r}, r)
	return r
}

// The disk fails at the n-th save, for every n: the driver stops at once and says why, nothing
// leaves that was not saved, and the peer that comes back on what was saved goes on.
func TestDiskFailsAtEverySave(t *testing.T) {
	t.Parallel()
	sent := map[slot.MessageType]int{}
	for n := range 12 {
		synctest.Test(t, func(t *testing.T) {
			s := newSwarm(t, simRules(4, 2))
			disk := newSimDisk(s, 1)
			disk.ledger.CutAfter(n)
			r := s.startRecorded(1, disk)
			other := s.startRecorded(2, newSimDisk(s, 2))
			select {
			case <-r.driver.Done():
			case <-time.After(5 * time.Minute):
				t.Fatalf("save %d: the driver works on without a disk", n)
			}
			if err := r.driver.Err(); !errors.Is(err, errPowerCut) {
				t.Errorf("save %d: %v", n, err)
			}
			if _, err := r.driver.WaitView(t.Context(), func(View) bool { return false }); !errors.Is(err,
				net.ErrClosed) || !errors.Is(err, errPowerCut) {
				t.Errorf("save %d: WaitView gave %v", n, err)
			}
			if r.mu.late > 0 {
				t.Errorf("save %d: %d messages left after the disk failed", n, r.mu.late)
			}
			back := s.startRecorded(1, s.kill(r.simPeer))
			for _, p := range []*recorder{back, other} {
				p.await("the end", func(v View) bool { return v.Done })
			}
			sameChain(t, back.simPeer, other.simPeer)
			for _, p := range []*recorder{back, other} {
				for typ, times := range p.mu.sent {
					sent[typ] += times
				}
			}
			s.end()
		})
	}
	for _, typ := range []slot.MessageType{
		slot.TypeAlive, slot.TypeVote, slot.TypeOffer, slot.TypeCommit,
		slot.TypeHave,
	} {
		// of one n alone that may be: where the senior of two leads every height, it needs nobody's
		// vote
		if sent[typ] == 0 {
			t.Errorf("no %s was sent: what this test checks did not happen", wire.TypeName(typ))
		}
	}
}

// What the node reports before Start counts from the first message on.
func TestDriverStartsFromTheReportedState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t, simRules(0, 1))
		p := s.start(1, newSimDisk(s, 1))
		p.await("a slot", atSlot(1))
		disk := s.kill(p)
		r := s.startRecorded(1, disk)
		synctest.Wait()
		if a := r.mu.alive; a == nil || !a.Synced || a.Slot < 1 {
			t.Errorf("the first ALIVE after a restart is %+v", a)
		}
		s.end()
	})
}

func TestSignerFailureStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t, simRules(0, 5))
		p := &simPeer{swarm: s, signer: newTestSigner(1), disk: newSimDisk(s, 1), cut: map[slot.PeerID]bool{}}
		s.run(p, DriverConfig{Signer: brokenSigner{p.signer}}, p)
		<-p.driver.Done()
		if !errors.Is(p.driver.Err(), errNoKey) {
			t.Errorf("stopped by %v", p.driver.Err())
		}
		s.end()
	})
}

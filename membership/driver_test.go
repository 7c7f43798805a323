package membership

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

func simRules(last uint64, start int) Rules {
	return Rules{Run: testRoot(1), LastSlot: last, StartPeers: start, MinPeers: 1, MaxStaleness: 2, MaxWeight: 1000, Elements: simElements}
}

// sameChain asks that all peers hold the same records and the same state.
func sameChain(t *testing.T, peers ...*simPeer) {
	t.Helper()
	first, _ := peers[0].disk.state()
	for _, p := range peers[1:] {
		at, _ := p.disk.state()
		height := min(at.Height, first.Height)
		a, _ := peers[0].driver.Record(height)
		b, ok := p.driver.Record(height)
		if !ok || a.Record.Hash() != b.Record.Hash() {
			t.Errorf("two records at height %d", height)
		}
		if at.Height == first.Height && at.StateRoot != first.StateRoot {
			t.Errorf("two states at height %d", height)
		}
	}
}

func atSlot(n uint64) func(View) bool {
	return func(v View) bool { return v.Synced && v.AppliedSlot >= n }
}

// A run lives through its founder's death: founding, joining, slots, a kill, slots without the dead, its return, the end.
func TestDriversRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t, simRules(9, 3))
		a, b, c := s.start(1, newSimDisk(s, 1)), s.start(2, newSimDisk(s, 2)), s.start(3, newSimDisk(s, 3))
		for _, p := range []*simPeer{a, b, c} {
			p.await("three slots", atSlot(3))
		}
		founder := slices.IndexFunc([]*simPeer{a, b, c}, func(p *simPeer) bool { return p.happened(EventFounded) })
		if founder < 0 {
			t.Fatal("nobody founded the run")
		}
		peers := []*simPeer{a, b, c}
		dead := peers[founder]
		disk := s.kill(dead)
		rest := slices.Delete(peers, founder, founder+1)
		for _, p := range rest {
			p.await("three slots without the founder", atSlot(6))
		}
		sameChain(t, rest...)
		back := s.start([]byte{1, 2, 3}[founder], disk)
		all := append(rest, back)
		for _, p := range all {
			p.await("the end of the run", func(v View) bool { return v.Done })
		}
		sameChain(t, all...)
		if got := load(t, back.disk.ledger); got.Boot != 2 || got.Incarnation != load(t, disk.ledger).Incarnation {
			t.Errorf("the founder came back as %+v", got)
		}
		s.end()
	})
}

// recorder checks, at the moment a message leaves, that what it says is on disk.
type recorder struct {
	*simPeer
	mu struct {
		sync.Mutex
		cut  bool
		late int // messages after the disk failed
		sent map[slot.MessageType]int
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
	m, err := Open(b, r.swarm.rules.Run, testVerify)
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
	tip := uint64(len(saved.Chain))
	switch body := m.Body.(type) {
	case Offer:
		if saved.OfferSeq < body.Seq {
			t.Errorf("offer %d sent, %d on disk", body.Seq, saved.OfferSeq)
		}
	case Vote:
		if body.Height > tip && (saved.Vote == nil || saved.Vote.Ref != body.Ref || saved.Vote.Record.Hash() != body.Hash) {
			t.Errorf("vote %+v sent, %+v on disk", body.Ref, saved.Vote)
		}
	case Propose:
		if body.Record.Height > tip && (saved.Vote == nil || saved.Vote.Record.Hash() != body.Record.Hash()) {
			t.Errorf("proposal of height %d sent, %+v on disk", body.Record.Height, saved.Vote)
		}
	case Promise:
		if body.Height > tip && (saved.Promise == nil || saved.Promise.Ballot < body.Ballot) {
			t.Errorf("promise %+v sent, %+v on disk", body.Ref, saved.Promise)
		}
	case ForkVote:
		if body.Height > tip && (saved.Fork == nil || saved.Fork.Record.Hash() != body.Hash) {
			t.Errorf("fork signature sent, %+v on disk", saved.Fork)
		}
	}
}

func (r *recorder) Save(entries []Entry) error {
	err := r.disk.ledger.Save(entries)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.cut = r.mu.cut || err != nil
	return err
}

func (r *recorder) Load() (Saved, error) { return r.disk.ledger.Load() }
func (r *recorder) Close() error         { return r.disk.ledger.Close() }

// startRecorded starts a peer whose store and transport are watched.
func (s *swarm) startRecorded(n byte, disk *simDisk) *recorder {
	r := &recorder{simPeer: &simPeer{swarm: s, signer: newTestSigner(n), disk: disk, cut: map[slot.PeerID]bool{}}}
	r.mu.sent = map[slot.MessageType]int{}
	s.run(r.simPeer, DriverConfig{Store: r, Transport: r})
	return r
}

// The disk fails at the n-th save, for every n: the driver stops at once and says why, nothing leaves that was not saved, and
// the peer that comes back on what was saved goes on.
func TestDiskFailsAtEverySave(t *testing.T) {
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
			if err := r.driver.Err(); !errors.Is(err, ErrPowerCut) {
				t.Errorf("save %d: %v", n, err)
			}
			if _, err := r.driver.WaitView(t.Context(), func(View) bool { return false }); !errors.Is(err, net.ErrClosed) || !errors.Is(err, ErrPowerCut) {
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
			for _, typ := range []slot.MessageType{slot.TypeAlive, slot.TypeVote, slot.TypeOffer, slot.TypeCommit, slot.TypeHave} {
				if back.mu.sent[typ]+other.mu.sent[typ] == 0 {
					t.Errorf("save %d: no %s was sent: what this test checks did not happen", n, TypeName(typ))
				}
			}
			s.end()
		})
	}
}

func TestDriverCountsBadMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t, simRules(0, 5)) // held at slot 0
		var log lockedBuffer
		p := &simPeer{swarm: s, signer: newTestSigner(1), disk: newSimDisk(s, 1), cut: map[slot.PeerID]bool{}}
		s.run(p, DriverConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		liar := newTestSigner(9).ID()
		good := mustSeal(t, newTestSigner(2), s.rules.Run, 5, Join{})
		bad := bytes.Clone(good)
		bad[len(bad)-1] ^= 1
		for range 5 {
			p.driver.Deliver(liar, bad)
		}
		p.driver.Deliver(liar, make([]byte, slot.MaxMessage+1))
		p.driver.Deliver(liar, nil)
		p.driver.Deliver(liar, mustSeal(t, newTestSigner(2), testRoot(99), 5, Join{}))
		p.driver.Deliver(newTestSigner(2).ID(), mustSeal(t, p.signer, s.rules.Run, p.driver.Incarnation(), Join{})) // an echo
		p.driver.Deliver(newTestSigner(2).ID(), mustSeal(t, p.signer, s.rules.Run, 77, Join{}))                     // a twin
		p.driver.Deliver(newTestSigner(2).ID(), good)
		synctest.Wait()
		if st := p.driver.Stats(); st.Received != 11 || st.Bad != 9 {
			t.Errorf("counted %+v", st)
		}
		text := log.String()
		if n := strings.Count(text, liar.String()); n != 4 { // the 1st, 2nd, 4th and 8th
			t.Errorf("the sender is named %d times:\n%s", n, text)
		}
		if !strings.Contains(text, "copy of the identity file") {
			t.Errorf("nothing about the twin:\n%s", text)
		}
		if p.driver.Err() != nil {
			t.Errorf("bad messages stopped the driver: %v", p.driver.Err())
		}
		s.end()
	})
}

// lockedBuffer is a log to read while it is written.
type lockedBuffer struct {
	mu struct {
		sync.Mutex
		b bytes.Buffer
	}
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.b.String()
}

var _ io.Writer = (*lockedBuffer)(nil)

func TestDriverLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t, simRules(0, 5))
		p := &simPeer{swarm: s, signer: newTestSigner(1), disk: newSimDisk(s, 1)}
		cfg := s.config(p, DriverConfig{})
		d, err := NewDriver(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(d.Close(), d.Close()); err != nil {
			t.Errorf("closing a driver that never started: %v", err)
		}
		if err := d.Start(t.Context()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("started after Close: %v", err)
		}
		if d, err = NewDriver(cfg); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if err := d.Start(ctx); err != nil {
			t.Fatal(err)
		}
		if d.Start(ctx) == nil {
			t.Error("started twice")
		}
		soon, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		if _, err := d.WaitView(soon, func(View) bool { return false }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("WaitView: %v", err)
		}
		cancel()
		<-d.Done()
		d.Report(ReportLeave{})
		d.Deliver("x", nil)
		if err := d.Close(); err != nil {
			t.Errorf("an orderly end is %v", err)
		}
		if _, err := d.WaitView(t.Context(), func(View) bool { return false }); !errors.Is(err, net.ErrClosed) {
			t.Errorf("WaitView after Close: %v", err)
		}
	})
}

func TestDriverConfigNamesEveryFault(t *testing.T) {
	_, err := NewDriver(DriverConfig{})
	if err == nil {
		t.Fatal("an empty configuration works")
	}
	for _, what := range []string{"Store", "Signer", "Transport", "Worker", "Planner", "Verifier", "Timing"} {
		if !strings.Contains(err.Error(), what) {
			t.Errorf("nothing about the %s in: %v", what, err)
		}
	}
}

func TestSignerFailureStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t, simRules(0, 5))
		p := &simPeer{swarm: s, signer: newTestSigner(1), disk: newSimDisk(s, 1), cut: map[slot.PeerID]bool{}}
		s.run(p, DriverConfig{Signer: brokenSigner{p.signer}})
		<-p.driver.Done()
		if !errors.Is(p.driver.Err(), errNoKey) {
			t.Errorf("stopped by %v", p.driver.Err())
		}
		s.end()
	})
}

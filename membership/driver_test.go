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
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

func simRules(last uint64, start int) chain.Rules {
	return chain.Rules{
		Run: testRoot(1), LastSlot: last, StartPeers: start, MinPeers: 1, MaxStaleness: 2, MaxWeight: 1000,
		Fragments: []uint64{simElements},
	}
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

// A run lives through its founder's death: founding, joining, slots, a kill, slots without the
// dead, its return, the end.
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

func TestDriverCountsBadMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t, simRules(0, 5)) // held at slot 0
		var log lockedBuffer
		p := &simPeer{swarm: s, signer: newTestSigner(1), disk: newSimDisk(s, 1), cut: map[slot.PeerID]bool{}}
		s.run(p, DriverConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))}, p)
		liar := newTestSigner(9).ID()
		good := mustSeal(t, newTestSigner(2), s.rules.Run, 5, wire.Join{})
		bad := bytes.Clone(good)
		bad[len(bad)-1] ^= 1
		for range 5 {
			p.driver.Deliver(liar, bad)
		}
		p.driver.Deliver(liar, make([]byte, slot.MaxMessage+1))
		p.driver.Deliver(liar, nil)
		p.driver.Deliver(liar, mustSeal(t, newTestSigner(2), testRoot(99), 5, wire.Join{}))
		// an echo
		p.driver.Deliver(newTestSigner(2).ID(), mustSeal(t, p.signer, s.rules.Run, p.driver.Incarnation(), wire.Join{}))
		// a clone
		p.driver.Deliver(newTestSigner(2).ID(), mustSeal(t, p.signer, s.rules.Run, 77, wire.Join{}))
		p.driver.Deliver(newTestSigner(2).ID(), good)
		synctest.Wait()
		if n := p.driver.verifier.blame.bads(); n != 9 {
			t.Errorf("%d bad messages counted", n)
		}
		text := log.String()
		if n := strings.Count(text, liar.String()); n != 4 { // the 1st, 2nd, 4th and 8th
			t.Errorf("the sender is named %d times:\n%s", n, text)
		}
		if !strings.Contains(text, "copy of the identity file") {
			t.Errorf("nothing about the clone:\n%s", text)
		}
		if p.driver.Err() != nil {
			t.Errorf("bad messages stopped the driver: %v", p.driver.Err())
		}
		s.end()
	})
}

// bads counts what was held against anybody.
func (b *blame) bads() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.total
}

// stuckStore is a disk that hangs, and fails once it is let go.
type stuckStore struct {
	*memoryStore
	let chan struct{}
}

func (s stuckStore) Save([]wire.Entry) error {
	<-s.let
	return errPowerCut
}

// While the disk hangs, Deliver and Report do not block, and what waits is bounded; Close then
// finds its way out.
func TestDriverWithAStuckDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t, simRules(0, 5))
		p := &simPeer{swarm: s, signer: newTestSigner(1), disk: newSimDisk(s, 1), cut: map[slot.PeerID]bool{}}
		store := stuckStore{p.disk.ledger, make(chan struct{})}
		s.run(p, DriverConfig{Store: store}, p)
		time.Sleep(time.Minute) // of the bubble: the founding is stuck in its first save
		for n := range byte(8) {
			other := newTestSigner(n + 2)
			b := mustSeal(t, other, s.rules.Run, 5, wire.Join{})
			for range 2 * inboxPeerMessages {
				p.driver.Deliver(other.ID(), b)
			}
		}
		for range 1000 {
			p.driver.Report(ReportProgress{Bytes: 1})
		}
		synctest.Wait()
		if n := len(p.driver.inputs.mu.messages); n > inputsAtOnce {
			t.Errorf("%d messages wait for the loop", n)
		}
		for from, q := range p.driver.inbox.mu.queues {
			if len(q.messages) > inboxPeerMessages {
				t.Errorf("%d messages of %s wait", len(q.messages), from)
			}
		}
		if n := len(p.driver.inputs.mu.reports); n > 1 {
			t.Errorf("%d reports of progress wait", n)
		}
		close(store.let)
		if err := p.driver.Close(); !errors.Is(err, errPowerCut) {
			t.Errorf("closed with %v", err)
		}
		s.end()
	})
}

// hangingStore is a disk that hangs from some moment on.
type hangingStore struct {
	*memoryStore
	hangs *atomic.Bool
	let   chan struct{}
}

func (s hangingStore) Save(entries []wire.Entry) error {
	if s.hangs.Load() {
		<-s.let
	}
	return s.memoryStore.Save(entries)
}

// A peer whose disk hangs is not taken for lost until it is no straggler any more; the others
// decide slots meanwhile.
func TestAHangingDiskIsASlowOneForAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t, simRules(0, 3))
		a, b := s.start(1, newSimDisk(s, 1)), s.start(2, newSimDisk(s, 2))
		p := &simPeer{swarm: s, signer: newTestSigner(3), disk: newSimDisk(s, 3), cut: map[slot.PeerID]bool{}}
		store := hangingStore{p.disk.ledger, new(atomic.Bool), make(chan struct{})}
		s.run(p, DriverConfig{Store: store}, p)
		at := p.await("three slots", atSlot(3)).AppliedSlot
		store.hangs.Store(true)
		time.Sleep(s.timing.Straggler - time.Second)
		for _, q := range []*simPeer{a, b} {
			if v := q.driver.View(); len(v.Tip.Members) != 3 {
				t.Errorf("members are %v", v.Tip.Members)
			}
		}
		for _, q := range []*simPeer{a, b} { // it may lead a term of each
			q.await("slots without it", atSlot(at+2))
		}
		time.Sleep(10 * time.Second)
		for _, q := range []*simPeer{a, b} {
			if v := q.driver.View(); len(v.Tip.Members) != 2 {
				t.Errorf("it hangs for ever, and is a member still: %v", v.Tip.Members)
			}
		}
		close(store.let)
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
		if err := d.Start(t.Context(), p); !errors.Is(err, net.ErrClosed) {
			t.Errorf("started after Close: %v", err)
		}
		if _, err := d.WaitView(t.Context(), func(View) bool { return false }); !errors.Is(err, net.ErrClosed) {
			t.Errorf("WaitView of a driver that never started: %v", err)
		}
		if d, err = NewDriver(cfg); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if err := d.Start(ctx, p); err != nil {
			t.Fatal(err)
		}
		if d.Start(ctx, p) == nil {
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

// sink counts what a driver sends.
type sink struct{ sent, published int }

func (s *sink) Send(slot.PeerID, []byte)        { s.sent++ }
func (s *sink) Publish([]byte)                  { s.published++ }
func (s *sink) Connected() map[slot.PeerID]bool { return nil }

// What gossip cannot carry goes by direct stream alone; what nothing carries is dropped and told.
// Neither stops the driver.
func TestDriverSendsNothingTooLarge(t *testing.T) {
	s, out := newSwarm(t, simRules(0, 5)), &sink{}
	d := newSender(s.config(&simPeer{signer: newTestSigner(1), disk: newSimDisk(s, 1)},
		DriverConfig{Transport: out, Logger: slog.New(slog.DiscardHandler)}), 1)
	large := wire.Alive{Reaches: slices.Repeat([]slot.PeerID{slot.PeerID(bytes.Repeat([]byte("x"), slot.MaxPeerIDLen))},
		slot.MaxMembers), Links: make([]slot.Link, slot.MaxMembers)}
	for _, body := range []wire.Body{wire.Alive{}, large, huge{}} {
		if err := d.send(wire.Envelope{To: []slot.PeerID{"x", "y"}, Gossip: true, Body: body}); err != nil {
			t.Error(err)
		}
	}
	if out.sent != 4 || out.published != 1 || len(d.own) != 0 {
		t.Errorf("%d sent, %d published", out.sent, out.published)
	}
}

func TestDriverConfigNamesEveryFault(t *testing.T) {
	_, err := NewDriver(DriverConfig{})
	if err == nil {
		t.Fatal("an empty configuration works")
	}
	for _, what := range []string{"Store", "Signer", "Transport", "Planner", "Verifier", "Timing"} {
		if !strings.Contains(err.Error(), what) {
			t.Errorf("nothing about the %s in: %v", what, err)
		}
	}
}

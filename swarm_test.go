package p2pdiloco

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bowl is a trainer whose peers pull the parameters to targets of their own: easy to compute, and no two peers' gradients are alike.
type bowl struct {
	target float32
	pace   time.Duration // of one inner step
	x      []float32
}

const bowlElements = 5000

func (b *bowl) Layout() Layout {
	return Layout{{Name: "x", Shape: []uint64{bowlElements}}}
}

func (b *bowl) Init(_ context.Context, dst []float32) error {
	for i := range dst {
		dst[i] = float32(i % 7)
	}
	return nil
}

func (b *bowl) Load(_ context.Context, anchor []float32) error {
	b.x = append(b.x[:0], anchor...)
	return nil
}

func (b *bowl) Export(_ context.Context, dst []float32) error { copy(dst, b.x); return nil }

func (b *bowl) Train(ctx context.Context, task Task) (Stats, error) {
	for range task.Steps {
		select {
		case <-ctx.Done():
			return Stats{}, ctx.Err()
		case <-time.After(b.pace):
		}
		for i := range b.x {
			b.x[i] += 0.1 * (b.target - b.x[i])
		}
	}
	return Stats{Steps: task.Steps, Tokens: uint64(task.Steps), Loss: float64(b.target)}, nil
}

// swarm is a run of whole nodes over a simulated network. Host 0 is the bootstrap node.
type swarm struct {
	t     *testing.T
	net   *sim.Net
	boot  *p2p.Network
	spec  Spec
	peers []*simPeer
}

type simPeer struct {
	node    atomic.Pointer[Node]
	host    int
	network *p2p.Network
	dir     string
	cancel  context.CancelFunc
	done    chan error // Run's result
	mu      struct {
		sync.Mutex
		events []Event
		roots  map[uint64]Root // state root by slot applied
	}
}

func newSwarm(t *testing.T, latency time.Duration, spec Spec) *swarm {
	s := &swarm{t: t, net: sim.New(t, 1, latency), spec: spec}
	boot, err := p2p.New(t.Context(), p2p.LAN(), p2p.WithHost(s.net.Hosts[0]))
	if err != nil {
		t.Fatal(err)
	}
	s.boot = boot
	t.Cleanup(func() { _ = boot.Close() })
	return s
}

// add makes a peer that knows the bootstrap node's address alone.
func (s *swarm) add() *simPeer {
	p := &simPeer{host: s.net.Add(), dir: s.t.TempDir()}
	s.peers = append(s.peers, p)
	return p
}

// start starts a peer's node and, once it has joined, its rounds.
func (s *swarm) start(p *simPeer) {
	p.done = make(chan error, 1)
	p.mu.roots = make(map[uint64]Root)
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	cfg := p2p.LAN()
	cfg.Bootstrap = []string{s.net.Addr(0)}
	network, err := p2p.New(ctx, cfg, p2p.WithHost(s.net.Hosts[p.host]))
	if err != nil {
		s.t.Fatal(err)
	}
	p.network = network
	go func() {
		node, err := Join(ctx, Config{
			Spec: s.spec, Trainer: &bowl{target: float32(p.host), pace: 10 * time.Millisecond}, DataDir: p.dir, Network: network,
			Preset: PresetLAN, OnEvent: p.note, Logger: testLogger(p.host),
		})
		if err == nil {
			p.node.Store(node)
			err = node.Run(ctx)
		}
		p.done <- err
	}()
}

func testLogger(host int) *slog.Logger {
	if os.Getenv("P2PDILOCO_TEST_LOG") == "" {
		return nil
	}
	h := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})
	return slog.New(h).With("host", host)
}

func (p *simPeer) note(e Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.events = append(p.mu.events, e)
	if e.Name == "slot.applied" {
		p.mu.roots[e.Fields["slot"].(uint64)] = e.Fields["state_root"].(Root)
	}
}

// count is how many events of a name the peer has had.
func (p *simPeer) count(name string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.mu.events {
		if e.Name == name {
			n++
		}
	}
	return n
}

func (p *simPeer) applied() (newest uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.mu.roots {
		newest = max(newest, s)
	}
	return newest
}

// until lets time pass until ok, at most limit.
func (s *swarm) until(limit time.Duration, what string, ok func() bool) {
	s.t.Helper()
	for began := time.Now(); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > limit {
			s.t.Fatalf("after %s: not %s\n%s", limit, what, s)
		}
	}
}

// kill stops a peer at once, as a crash does; its disk stays.
func (s *swarm) kill(p *simPeer) {
	p.cancel()
	<-p.done
	if n := p.node.Swap(nil); n != nil {
		_ = n.Close()
	}
	_ = p.network.Close()
}

// finish waits until every given peer's run has ended and closes all.
func (s *swarm) finish(limit time.Duration, peers ...*simPeer) {
	s.t.Helper()
	deadline := time.After(limit)
	for _, p := range peers {
		select {
		case err := <-p.done:
			if err != nil {
				s.t.Errorf("peer on host %d: %v", p.host, err)
			}
			p.done <- err
		case <-deadline:
			s.t.Fatalf("the run has not ended after %s\n%s", limit, s)
		}
	}
	s.equal(peers...)
}

// equal checks that no two peers had different state roots after the same slot, and that all given ones got to the same slot.
func (s *swarm) equal(peers ...*simPeer) {
	s.t.Helper()
	seen := make(map[uint64]Root)
	for _, p := range s.peers {
		p.mu.Lock()
		for slotNumber, root := range p.mu.roots {
			if other, ok := seen[slotNumber]; ok && other != root {
				s.t.Errorf("slot %d: host %d has state root %s, another has %s", slotNumber, p.host, root.Short(), other.Short())
			}
			seen[slotNumber] = root
		}
		p.mu.Unlock()
	}
	for _, p := range peers {
		if at, want := p.applied(), peers[0].applied(); at != want {
			s.t.Errorf("host %d ended at slot %d, host %d at %d", p.host, at, peers[0].host, want)
		}
	}
}

// closeAll closes whatever still runs.
func (s *swarm) closeAll() {
	for _, p := range s.peers {
		if p.done != nil {
			s.kill(p)
		}
	}
	_ = s.boot.Close()
}

func (s *swarm) String() string {
	out := ""
	for _, p := range s.peers {
		out += fmt.Sprintf("host %d: slot %d", p.host, p.applied())
		if n := p.node.Load(); n != nil {
			out += fmt.Sprintf(", %+v", n.driver.View())
		}
		out += "\n"
	}
	return out
}

func simSpec(rounds, startPeers uint64) Spec {
	return Spec{
		Name: "sim", Rounds: rounds, InnerSteps: 20, StartPeers: startPeers, Outer: "nesterov", OuterLR: "0.7", Momentum: "0.6", TrimPermille: 250,
	}
}

// inSim runs f in a bubble of virtual time.
func inSim(t *testing.T, latency time.Duration, spec Spec, f func(s *swarm)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t, latency, spec)
		defer s.closeAll()
		f(s)
	})
}

func TestEightPeersTrainOneModel(t *testing.T) {
	inSim(t, 20*time.Millisecond, simSpec(4, 8), func(s *swarm) {
		for range 8 {
			s.start(s.add())
		}
		s.finish(2*time.Minute, s.peers...)
		for _, p := range s.peers {
			if p.applied() != 4 {
				t.Errorf("host %d applied %d slots of 4", p.host, p.applied())
			}
		}
	})
}

func TestAPeerKilledInTheMiddleDoesNotStopTheOthers(t *testing.T) {
	for _, victim := range []int{0, 1, 2, 3} { // the leader of the slot is among them
		t.Run(fmt.Sprint(victim), func(t *testing.T) {
			inSim(t, 10*time.Millisecond, simSpec(5, 4), func(s *swarm) {
				for range 4 {
					s.start(s.add())
				}
				s.until(time.Minute, "at slot 2", func() bool { return s.peers[victim].applied() >= 2 })
				s.kill(s.peers[victim])
				survivors := append(append([]*simPeer{}, s.peers[:victim]...), s.peers[victim+1:]...)
				s.finish(2*time.Minute, survivors...)
				s.peers[victim].done = nil
			})
		})
	}
}

func TestALateJoinerGetsTheStateAndTakesPart(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(12, 2), func(s *swarm) {
		for range 3 {
			s.start(s.add())
		}
		s.until(time.Minute, "at slot 4", func() bool { return s.peers[0].applied() >= 4 })
		late := s.add()
		s.start(late)
		s.finish(3*time.Minute, s.peers...)
		if late.count("state.synced") == 0 || late.count("run.joined") == 0 {
			t.Errorf("the late joiner synced %d times and joined %d times", late.count("state.synced"), late.count("run.joined"))
		}
	})
}

func TestAPeerKilledAndRestartedCarriesOnAsTheSameMember(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(12, 3), func(s *swarm) {
		for range 3 {
			s.start(s.add())
		}
		p := s.peers[1]
		s.until(time.Minute, "at slot 3", func() bool { return p.applied() >= 3 })
		s.kill(p)
		s.until(time.Minute, "two slots on", func() bool { return s.peers[0].applied() >= 5 })
		s.start(p)
		s.finish(3*time.Minute, s.peers...)
	})
}

func TestACutOffPeerComesBack(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(15, 4), func(s *swarm) {
		for range 4 {
			s.start(s.add())
		}
		p := s.peers[2]
		s.until(time.Minute, "at slot 3", func() bool { return p.applied() >= 3 })
		s.net.Isolate(p.host)
		s.until(time.Minute, "the others go on", func() bool { return s.peers[0].applied() >= 6 })
		if p.applied() > 4 {
			t.Errorf("the isolated peer got to slot %d on its own", p.applied())
		}
		s.net.Rejoin(p.host)
		s.finish(5*time.Minute, s.peers...)
	})
}

func TestAPeerWithAnotherSpecIsToldWhichFieldDiffers(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(30, 1), func(s *swarm) {
		s.start(s.add())
		s.until(time.Minute, "running", func() bool { return s.peers[0].applied() >= 1 })
		s.spec.InnerSteps = 99
		stranger := s.add()
		s.start(stranger)
		err := <-stranger.done
		stranger.done <- err
		var differs *SpecError
		if !errors.As(err, &differs) || differs.Field != "inner_steps" || differs.There != "20" {
			t.Errorf("the stranger's error: %v", err)
		}
	})
}

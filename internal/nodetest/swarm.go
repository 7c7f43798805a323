package nodetest

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

func init() { testutil.OneCPU() }

// Swarm is a run of whole nodes over a simulated network. Host 0 is the bootstrap node.
type Swarm struct {
	T     *testing.T
	Net   *sim.Net
	Boot  *p2p.Network
	Spec  p2pdiloco.Spec
	Peers []*Peer
}

// Spec returns the spec of a short run.
func Spec(rounds, startPeers uint64) p2pdiloco.Spec {
	return p2pdiloco.Spec{
		Name: "sim", Rounds: rounds, InnerSteps: 20, StartPeers: startPeers, Outer: "nesterov", OuterLR: "0.7",
		Momentum: "0.6", TrimPermille: 250,
	}
}

// Modes lists the modes that a run may have, sync first.
const Modes = "sync delayed eager streaming async"

// Run runs f in a bubble of virtual time, with n peers that are not started, beside other tests. It
// takes 10 ms from host to host, until f says otherwise.
func Run(t *testing.T, spec p2pdiloco.Spec, n int, f func(s *Swarm)) {
	t.Parallel()
	RunNow(t, spec, n, f)
}

// Once does what Run does, with the spec of a short run whose first slot waits for all peers.
func Once(t *testing.T, slots uint64, peers int, f func(s *Swarm)) {
	Run(t, Spec(slots, uint64(peers)), peers, f)
}

// RunNow does what Run does, for tests that choose themselves which of them run in parallel. By day
// the network moves bytes from queue to queue, at night the hosts exchange QUIC packets.
func RunNow(t *testing.T, spec p2pdiloco.Spec, n int, f func(s *Swarm)) {
	open := sim.NewMemory
	if testutil.Nightly() {
		open = sim.New
	}
	RunOver(t, open, spec, n, f)
}

// RunOver does what RunNow does, over a network that open makes.
func RunOver(
	t *testing.T, open func(testing.TB, int, time.Duration) *sim.Net, spec p2pdiloco.Spec, n int, f func(s *Swarm),
) {
	synctest.Test(t, func(t *testing.T) {
		s := &Swarm{T: t, Net: open(t, 1, 10*time.Millisecond), Spec: spec}
		var err error
		if s.Boot, err = p2p.New(t.Context(), p2p.LAN(), p2p.WithHost(s.Net.Hosts[0])); err != nil {
			t.Fatal(err)
		}
		defer func() {
			for _, p := range s.Peers {
				if p.Done != nil { // it still runs
					s.Stop(p)
				}
			}
			_ = s.Boot.Close()
		}()
		for range n {
			s.Add()
		}
		f(s)
	})
}

// Add makes a peer that knows the bootstrap node's address alone.
func (s *Swarm) Add() *Peer {
	host := s.Net.Add()
	id, keys := s.Net.Hosts[host].ID(), s.Net.Hosts[host].Peerstore()
	if err := keys.AddPrivKey(id, rememberingSigner{keys.PrivKey(id)}); err != nil {
		s.T.Fatal(err)
	}
	bowl := &Bowl{Target: float32(host), Pace: 10 * time.Millisecond, Parts: host%2 > 0}
	p := &Peer{
		Host: host, Dir: s.T.TempDir(), Trainer: bowl, Preset: p2pdiloco.PresetLAN, Relay: p2p.MemberRelay(),
	}
	p.mu.roots = make(map[uint64]p2pdiloco.Root)
	s.Peers = append(s.Peers, p)
	return p
}

// Pace sets how long every peer's inner steps take.
func (s *Swarm) Pace(step time.Duration) {
	for _, p := range s.Peers {
		p.Trainer.(*Bowl).Pace = step
	}
}

// Start starts each peer's process: it joins, runs, and closes when the run is over.
func (s *Swarm) Start(peers ...*Peer) {
	s.T.Helper()
	for _, p := range peers {
		ctx, cancel := context.WithCancel(context.Background())
		p.Cancel, p.Done = cancel, make(chan error, 1)
		cfg := p2p.LAN()
		if p.Preset == p2pdiloco.PresetWAN {
			cfg = p2p.WAN()
		}
		cfg.Relay, cfg.PeersFile = p.Relay, filepath.Join(p.Dir, "peers")
		cfg.Bootstrap, cfg.Logger = []string{s.Net.Addr(p.Boot)}, testLogger(p.Host)
		var err error
		if p.Network, err = p2p.New(ctx, cfg, p2p.WithHost(s.Net.Hosts[p.Host])); err != nil {
			s.T.Fatal(err)
		}
		go func() { p.Done <- p.Process(ctx, s.Spec) }()
	}
}

// Kill ends a peer's process at once; the others notice only that it falls silent. Its disk stays.
func (s *Swarm) Kill(peers ...*Peer) {
	for _, p := range peers {
		if p.Done == nil {
			continue
		}
		s.Isolate(p)
		s.Stop(p)
	}
}

// Stop ends a peer's process; its connections are closed, as the kernel does it for one that dies.
func (s *Swarm) Stop(p *Peer) {
	if len(p.Done) == 0 {
		p.Troubled.Store(true)
	}
	p.Cancel()
	<-p.Done
	p.Done = nil
	if n := p.TakeNode(); n != nil {
		if err := n.Close(); err != nil {
			s.T.Errorf("host %d: close: %v", p.Host, err)
		}
	}
	if err := p.Network.Close(); err != nil {
		s.T.Errorf("host %d: close of the network: %v", p.Host, err)
	}
	s.Forget(p)
}

// Forget takes from a peer's host, which outlives the process here, what would help the next one.
func (s *Swarm) Forget(p *Peer) {
	host := s.Net.Hosts[p.Host]
	for _, c := range host.Network().Conns() {
		_ = c.Close()
	}
	for _, known := range host.Peerstore().Peers() {
		if known != host.ID() {
			host.Peerstore().ClearAddrs(known)
		}
	}
}

// Freeze stops a peer as SIGSTOP does, as far as others can see: no packet goes in or out, and its
// trainer stands still.
func (s *Swarm) Freeze(p *Peer) {
	p.Trainer.(*Bowl).Frozen.Store(true)
	p.Troubled.Store(true)
	s.Net.Freeze(p.Host)
}

// Thaw undoes freeze.
func (s *Swarm) Thaw(p *Peer) {
	s.Net.Thaw(p.Host)
	p.Trainer.(*Bowl).Frozen.Store(false)
}

// Restart starts killed peers again, from their disks.
func (s *Swarm) Restart(peers ...*Peer) {
	for _, p := range peers {
		s.Net.Rejoin(p.Host)
		s.Start(p)
	}
}

// Finish waits until the run of every given peer has ended well, each process ending as soon as its
// run does. It checks that states were equal after each slot, and that all trainers are left with
// the last one's parameters.
func (s *Swarm) Finish(limit time.Duration, peers ...*Peer) {
	s.T.Helper()
	deadline := time.After(limit)
	for _, p := range peers {
		if err := s.Outcome(p, deadline); err != nil {
			s.T.Errorf("host %d: %v", p.Host, err)
		}
	}
	s.Equal()
	var left []float32
	for _, p := range peers {
		if p.Applied() != s.Spec.LastSlot() {
			s.T.Errorf("host %d ended at slot %d of %d", p.Host, p.Applied(), s.Spec.LastSlot())
		}
		if b, ok := p.Trainer.(interface{ Live() []float32 }); ok && len(b.Live()) > 0 {
			if left == nil {
				left = b.Live()
			}
			SameVectors(s.T, fmt.Sprintf("host %d: what its trainer is left with", p.Host), b.Live(), left)
		}
	}
}

// Outcome returns the error that a peer's process ended with.
func (s *Swarm) Outcome(p *Peer, deadline <-chan time.Time) error {
	s.T.Helper()
	select {
	case err := <-p.Done:
		p.Done <- err
		s.Stop(p)
		return err
	case <-deadline:
		s.T.Fatalf("the run has not ended in time\n%s", s)
		return nil
	}
}

// Equal checks that no two peers, dead ones included, ever had different states after the same
// slot.
func (s *Swarm) Equal() {
	s.T.Helper()
	seen := make(map[uint64]p2pdiloco.Root)
	for _, p := range s.Peers {
		for slotNumber, root := range p.States() {
			if other, ok := seen[slotNumber]; ok && other != root {
				s.T.Errorf("slot %d: host %d has state root %s, another has %s", slotNumber, p.Host, root.Short(),
					other.Short())
			}
			seen[slotNumber] = root
		}
	}
}

// Until lets time pass until ok, at most limit.
func (s *Swarm) Until(limit time.Duration, what string, ok func() bool) {
	s.T.Helper()
	for began := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > limit {
			s.T.Fatalf("after %s: not %s\n%s", limit, what, s)
		}
	}
}

// Reach waits until every given peer has applied a slot.
func (s *Swarm) Reach(slotNumber uint64, peers ...*Peer) {
	s.T.Helper()
	s.Until(2*time.Minute, fmt.Sprintf("at slot %d", slotNumber), func() bool {
		return !slices.ContainsFunc(peers, func(p *Peer) bool { return p.Applied() < slotNumber })
	})
}

// But returns all peers except some.
func (s *Swarm) But(out ...*Peer) []*Peer {
	return slices.DeleteFunc(slices.Clone(s.Peers), func(p *Peer) bool { return slices.Contains(out, p) })
}

// ByID finds a peer.
func (s *Swarm) ByID(id p2pdiloco.PeerID) *Peer {
	i := slices.IndexFunc(s.Peers, func(p *Peer) bool { return s.ID(p) == id })
	return s.Peers[i]
}

// ID returns the identity of a peer's host.
func (s *Swarm) ID(p *Peer) p2pdiloco.PeerID { return p2pdiloco.PeerID(s.Net.Hosts[p.Host].ID()) }

// Isolate cuts all given peers off at the same moment.
func (s *Swarm) Isolate(peers ...*Peer) {
	for _, p := range peers {
		p.Troubled.Store(true)
		s.Net.Isolate(p.Host)
	}
}

// Cut cuts, or heals, every link between the two groups.
func (s *Swarm) Cut(on bool, a, b []*Peer) {
	for _, p := range a {
		for _, q := range b {
			if on {
				p.Troubled.Store(true)
				q.Troubled.Store(true)
				s.Net.Cut(p.Host, q.Host)
			} else {
				s.Net.Heal(p.Host, q.Host)
			}
		}
	}
}

func (s *Swarm) String() string {
	var out strings.Builder
	for _, p := range s.Peers {
		var status []byte
		if n := p.Node.Load(); n != nil {
			status, _ = json.Marshal(n.Status())
		}
		fmt.Fprintf(&out, "host %d: slot %d, %s\n", p.Host, p.Applied(), status)
	}
	return out.String()
}

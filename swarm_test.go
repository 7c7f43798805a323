package p2pdiloco

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	_ "github.com/p2pdiloco/p2pdiloco/internal/onecpu"
	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// swarm is a run of whole nodes over a simulated network. Host 0 is the bootstrap node.
type swarm struct {
	t     *testing.T
	net   *sim.Net
	boot  *p2p.Network
	spec  Spec
	peers []*simPeer
}

func simSpec(rounds, startPeers uint64) Spec {
	return Spec{
		Name: "sim", Rounds: rounds, InnerSteps: 20, StartPeers: startPeers, Outer: "nesterov", OuterLR: "0.7", Momentum: "0.6", TrimPermille: 250,
	}
}

// inSim runs f in a bubble of virtual time, with n peers that are not started. Swarms wait for the disk most of the time, so
// they run beside each other.
func inSim(t *testing.T, latency time.Duration, spec Spec, n int, f func(s *swarm)) {
	t.Helper()
	t.Parallel()
	inSimNow(t, latency, spec, n, f)
}

// inSimNow is inSim for tests that say themselves what runs beside what.
func inSimNow(t *testing.T, latency time.Duration, spec Spec, n int, f func(s *swarm)) {
	t.Helper()
	inSimOver(t, sim.New, latency, spec, n, f)
}

// inSimOver is inSimNow over a network that open makes.
func inSimOver(t *testing.T, open func(testing.TB, int, time.Duration) *sim.Net, latency time.Duration, spec Spec, n int, f func(s *swarm)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &swarm{t: t, net: open(t, 1, latency), spec: spec}
		boot, err := p2p.New(t.Context(), p2p.LAN(), p2p.WithHost(s.net.Hosts[0]))
		if err != nil {
			t.Fatal(err)
		}
		s.boot = boot
		defer s.closeAll()
		for range n {
			s.add()
		}
		f(s)
	})
}

// add makes a peer that knows the bootstrap node's address alone.
func (s *swarm) add() *simPeer {
	host := s.net.Add()
	p := &simPeer{host: host, dir: s.t.TempDir(), trainer: &bowl{target: float32(host), pace: 10 * time.Millisecond}}
	p.mu.roots = make(map[uint64]Root)
	s.peers = append(s.peers, p)
	return p
}

// pace sets how long every peer's inner steps take.
func (s *swarm) pace(step time.Duration) {
	for _, p := range s.peers {
		p.trainer.(*bowl).pace = step
	}
}

// start starts each peer's process: it joins, runs, and closes when the run is over.
func (s *swarm) start(peers ...*simPeer) {
	s.t.Helper()
	for _, p := range peers {
		ctx, cancel := context.WithCancel(context.Background())
		p.cancel, p.done = cancel, make(chan error, 1)
		cfg := p2p.LAN()
		if p.far {
			cfg = p2p.WAN()
		}
		cfg.PeersFile = filepath.Join(p.dir, "peers")
		if p.tune != nil {
			p.tune(&cfg)
		}
		cfg.Bootstrap, cfg.Logger = []string{s.net.Addr(p.boot)}, testLogger(p.host)
		var err error
		if p.network, err = p2p.New(ctx, cfg, p2p.WithHost(s.net.Hosts[p.host])); err != nil {
			s.t.Fatal(err)
		}
		go func() { p.done <- p.process(ctx, s.spec) }()
	}
}

// kill ends a peer's process at once; the others notice only that it falls silent. Its disk stays.
func (s *swarm) kill(peers ...*simPeer) {
	for _, p := range peers {
		if p.done == nil {
			continue
		}
		s.net.Isolate(p.host)
		s.stop(p)
	}
}

// stop ends a peer's process; its connections are closed, as the kernel does it for one that dies.
func (s *swarm) stop(p *simPeer) {
	p.cancel()
	<-p.done
	p.done = nil
	if n := p.node.Swap(nil); n != nil {
		if err := n.Close(); err != nil {
			s.t.Errorf("host %d: close: %v", p.host, err)
		}
	}
	if err := p.network.Close(); err != nil {
		s.t.Errorf("host %d: close of the network: %v", p.host, err)
	}
	s.forget(p)
}

// forget takes from a peer's host, which outlives the process here, what would help the next one.
func (s *swarm) forget(p *simPeer) {
	host := s.net.Hosts[p.host]
	for _, c := range host.Network().Conns() {
		_ = c.Close()
	}
	for _, known := range host.Peerstore().Peers() {
		if known != host.ID() {
			host.Peerstore().ClearAddrs(known)
		}
	}
}

// freeze stops a peer as SIGSTOP does, as far as others can see: no packet goes in or out, and its trainer stands still.
func (s *swarm) freeze(p *simPeer) {
	stopped := make(chan struct{})
	p.trainer.(*bowl).frozen.Store(&stopped)
	s.net.Freeze(p.host)
}

// thaw undoes freeze.
func (s *swarm) thaw(p *simPeer) {
	s.net.Thaw(p.host)
	if stopped := p.trainer.(*bowl).frozen.Swap(nil); stopped != nil {
		close(*stopped)
	}
}

// restart starts killed peers again, from their disks.
func (s *swarm) restart(peers ...*simPeer) {
	for _, p := range peers {
		s.net.Rejoin(p.host)
		s.start(p)
	}
}

// finish waits until the run of every given peer has ended well, each process ending as soon as its run does.
func (s *swarm) finish(limit time.Duration, peers ...*simPeer) {
	s.t.Helper()
	deadline := time.After(limit)
	for _, p := range peers {
		if err := s.outcome(p, deadline); err != nil {
			s.t.Errorf("host %d: %v", p.host, err)
		}
	}
	s.equal()
	for _, p := range peers {
		if p.applied() != s.spec.LastSlot() {
			s.t.Errorf("host %d ended at slot %d of %d", p.host, p.applied(), s.spec.LastSlot())
		}
	}
}

// outcome is what a peer's process ended with.
func (s *swarm) outcome(p *simPeer, deadline <-chan time.Time) error {
	s.t.Helper()
	select {
	case err := <-p.done:
		p.done <- err
		s.stop(p)
		return err
	case <-deadline:
		s.t.Fatalf("the run has not ended in time\n%s", s)
		return nil
	}
}

// equal checks that no two peers, dead ones included, ever had different states after the same slot.
func (s *swarm) equal() {
	s.t.Helper()
	seen := make(map[uint64]Root)
	for _, p := range s.peers {
		for slotNumber, root := range p.states() {
			if other, ok := seen[slotNumber]; ok && other != root {
				s.t.Errorf("slot %d: host %d has state root %s, another has %s", slotNumber, p.host, root.Short(), other.Short())
			}
			seen[slotNumber] = root
		}
	}
}

// until lets time pass until ok, at most limit.
func (s *swarm) until(limit time.Duration, what string, ok func() bool) {
	s.t.Helper()
	for began := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > limit {
			s.t.Fatalf("after %s: not %s\n%s", limit, what, s)
		}
	}
}

// reach waits until every given peer has applied a slot.
func (s *swarm) reach(slotNumber uint64, peers ...*simPeer) {
	s.t.Helper()
	s.until(2*time.Minute, fmt.Sprintf("at slot %d", slotNumber), func() bool {
		return !slices.ContainsFunc(peers, func(p *simPeer) bool { return p.applied() < slotNumber })
	})
}

// but is all peers less some.
func (s *swarm) but(out ...*simPeer) []*simPeer {
	return slices.DeleteFunc(slices.Clone(s.peers), func(p *simPeer) bool { return slices.Contains(out, p) })
}

// byID finds a peer.
func (s *swarm) byID(id PeerID) *simPeer {
	i := slices.IndexFunc(s.peers, func(p *simPeer) bool { return s.id(p) == id })
	return s.peers[i]
}

func (s *swarm) id(p *simPeer) PeerID { return PeerID(s.net.Hosts[p.host].ID()) }

// isolate cuts all given peers off at the same moment.
func (s *swarm) isolate(peers ...*simPeer) {
	for _, p := range peers {
		s.net.Isolate(p.host)
	}
}

// cut cuts, or heals, every link between the two groups.
func (s *swarm) cut(on bool, a, b []*simPeer) {
	for _, p := range a {
		for _, q := range b {
			if on {
				s.net.Cut(p.host, q.host)
			} else {
				s.net.Heal(p.host, q.host)
			}
		}
	}
}

// closeAll ends whatever still runs.
func (s *swarm) closeAll() {
	for _, p := range s.peers {
		if p.done != nil {
			s.stop(p)
		}
	}
	_ = s.boot.Close()
}

func (s *swarm) String() string {
	var out strings.Builder
	for _, p := range s.peers {
		fmt.Fprintf(&out, "host %d: slot %d", p.host, p.applied())
		if n := p.node.Load(); n != nil && n.driver != nil {
			v := n.driver.View()
			fmt.Fprintf(&out, ", %s: height %d, slot %d applied, ballot %d of %s, member %v, synced %v, paused %v, done %v, plan %v, offered %d of %d, own offer %v",
				n.Self().Short(), v.Tip.Height, v.AppliedSlot, v.Ref.Ballot, v.Leader.Short(), v.IsMember, v.Synced, v.Paused, v.Done,
				v.Plan != nil, len(v.Offered), len(v.Members), v.OwnOffer)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

package membership

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
)

// swarm is a run of drivers in one synctest bubble: a network with latency, workers that reduce
// nothing but keep the rules, and trainers that offer as soon as they may.
type swarm struct {
	t      *testing.T
	rules  chain.Rules
	timing Timing
	mu     struct {
		sync.Mutex
		peers map[slot.PeerID]*simPeer // the living
	}
}

// simPeer is one process. Its disk, simDisk, outlives it.
type simPeer struct {
	swarm  *swarm
	signer testSigner
	disk   *simDisk
	driver *Driver
	cancel context.CancelFunc
	wg     sync.WaitGroup
	stated sync.Map             // ranges by group: what is reduced once stays
	cut    map[slot.PeerID]bool // unreachable from here; guarded by swarm.mu
	events []Event              // guarded by swarm.mu
}

// simDisk is what survives a crash.
type simDisk struct {
	ledger *memoryStore
	mu     struct {
		sync.Mutex
		held         bool
		height, slot uint64
		root         slot.Root
		outcomes     map[slot.Root]bool
	}
}

func newSwarm(t *testing.T, rules chain.Rules) *swarm {
	s := &swarm{t: t, rules: rules, timing: Timing{
		Alive: 250 * time.Millisecond, Beat: 250 * time.Millisecond, Patience: 2 * time.Second,
		Lost:     1500 * time.Millisecond,
		MinGrace: 2 * time.Second, GraceFactor: 3, Straggler: 20 * time.Second,
		FoundAfter: 1500 * time.Millisecond, Linger: 5 * time.Second, Retry: 500 * time.Millisecond,
	}}
	s.mu.peers = map[slot.PeerID]*simPeer{}
	return s
}

func newSimDisk(s *swarm, n byte) *simDisk {
	d := &simDisk{ledger: newMemoryStore(s.rules.Run, slot.Incarnation(n)+1000)}
	d.mu.outcomes = map[slot.Root]bool{}
	return d
}

// start brings up peer number n on a disk.
func (s *swarm) start(n byte, disk *simDisk) *simPeer {
	s.t.Helper()
	p := &simPeer{swarm: s, signer: newTestSigner(n), disk: disk, cut: map[slot.PeerID]bool{}}
	s.run(p, DriverConfig{}, p)
	return p
}

// config fills in what a driver of this swarm works with, where cfg does not say otherwise.
func (s *swarm) config(p *simPeer, cfg DriverConfig) DriverConfig {
	if cfg.Store == nil {
		cfg.Store = p.disk.ledger
	}
	if cfg.Transport == nil {
		cfg.Transport = p
	}
	if cfg.Signer == nil {
		cfg.Signer = p.signer
	}
	cfg.Rules, cfg.Timing, cfg.Plan, cfg.Verify, cfg.OnEvent = s.rules, s.timing, simPlan, testVerify, p.event
	return cfg
}

func (s *swarm) run(p *simPeer, cfg DriverConfig, worker Worker) {
	s.t.Helper()
	var err error
	if p.driver, err = NewDriver(s.config(p, cfg)); err != nil {
		s.t.Fatal(err)
	}
	if at, ok := p.disk.state(); ok {
		p.driver.Report(at)
	}
	s.mu.Lock()
	s.mu.peers[p.signer.ID()] = p
	s.mu.Unlock()
	ctx, cancel := context.WithCancel(s.t.Context())
	p.cancel = cancel
	if err := p.driver.Start(ctx, worker); err != nil {
		s.t.Fatal(err)
	}
	p.wg.Go(func() { p.train(ctx) })
}

// kill ends a process as kill -9 does; the disk may be started again.
func (s *swarm) kill(p *simPeer) *simDisk {
	s.mu.Lock()
	delete(s.mu.peers, p.signer.ID())
	s.mu.Unlock()
	p.cancel()
	_ = p.driver.Close()
	p.wg.Wait()
	p.disk.ledger = p.disk.ledger.Restart()
	return p.disk
}

func (s *swarm) end() {
	s.mu.Lock()
	peers := make([]*simPeer, 0, len(s.mu.peers))
	for _, p := range s.mu.peers {
		peers = append(peers, p)
	}
	s.mu.Unlock()
	for _, p := range peers {
		s.kill(p)
	}
}

// await waits until a peer's view satisfies a predicate, for at most some virtual minutes.
func (p *simPeer) await(what string, enough func(View) bool) View {
	p.swarm.t.Helper()
	ctx, cancel := context.WithTimeout(p.swarm.t.Context(), 5*time.Minute)
	defer cancel()
	v, err := p.driver.WaitView(ctx, enough)
	if err != nil {
		p.swarm.t.Fatalf("waiting for %s: %v; the view is %+v", what, err, v)
	}
	return v
}

func (p *simPeer) event(e Event) {
	p.swarm.mu.Lock()
	defer p.swarm.mu.Unlock()
	p.events = append(p.events, e)
}

// happened says whether the driver told of an event.
func (p *simPeer) happened(k EventKind) bool {
	p.swarm.mu.Lock()
	defer p.swarm.mu.Unlock()
	return slices.ContainsFunc(p.events, func(e Event) bool { return e.Kind == k })
}

// The network: a message takes 10 ms; what is on its way to a dead peer is lost.

const simLatency = 10 * time.Millisecond

func (p *simPeer) Send(to slot.PeerID, b []byte) {
	from, b := p.signer.ID(), bytes.Clone(b)
	time.AfterFunc(simLatency, func() {
		p.swarm.mu.Lock()
		other, cut := p.swarm.mu.peers[to], p.cut[to]
		p.swarm.mu.Unlock()
		if other != nil && !cut {
			other.driver.Deliver(from, b)
		}
	})
}

func (p *simPeer) Publish(b []byte) {
	for to := range p.Connected() {
		p.Send(to, b)
	}
}

func (p *simPeer) Connected() map[slot.PeerID]bool {
	peers := map[slot.PeerID]bool{}
	p.swarm.mu.Lock()
	defer p.swarm.mu.Unlock()
	for id := range p.swarm.mu.peers {
		if id != p.signer.ID() && !p.cut[id] {
			peers[id] = false
		}
	}
	return peers
}

// The worker: a state is the hash of all outcomes applied. Reduced bytes follow from the plan, so
// each owner "reduces" alone.

const simElements = 60

// simPlan gives each peer an equal piece, and those of a peer that is gone to the next one that is
// not.
func simPlan(plan slot.Plan, _ slot.Links) (pieces []slot.Piece, ring []uint16) {
	n := len(plan.Offers)
	each := uint64(simElements / n)
	for i := range n {
		heir := i
		for plan.Gone.Has(heir) {
			heir = (heir + 1) % n
		}
		pieces = append(pieces, slot.Piece{
			Range: slot.Range{Begin: uint64(i) * each, End: uint64(i+1) * each},
			Owner: plan.Offers[heir].Peer,
		})
	}
	pieces[n-1].Range.End = simElements
	return pieces, plan.Ring
}

func (p *simPeer) Do(ctx context.Context, w Work, report func(Report)) {
	p.wg.Go(func() {
		select {
		case <-time.After(20 * time.Millisecond):
			for _, r := range p.work(w) {
				report(r)
			}
		case <-ctx.Done():
		}
	})
}

func (p *simPeer) work(w Work) []Report {
	switch w := w.(type) {
	case WorkFound:
		return p.disk.become(0, 0, slot.Hash([]byte("initial")))
	case WorkReduce:
		return p.reduce(w.Plan)
	case WorkHold:
		p.disk.hold(w.Draft.Outcome())
		return []Report{ReportHeld{Ref: w.Draft.Ref, Outcome: w.Draft.Outcome()}}
	case WorkApply:
		return p.disk.apply(w.Record)
	case WorkSync:
		s := w.Roots[0]
		return p.disk.become(s.Height, s.Slot, s.Root)
	}
	return nil
}

func (p *simPeer) reduce(plan slot.Plan) (reports []Report) {
	for _, piece := range plan.Pieces {
		if piece.Owner != p.signer.ID() {
			continue
		}
		if _, again := p.stated.LoadOrStore(fmt.Sprint(plan.Group(), piece.Range), true); again {
			continue
		}
		set, h := slot.NewBitmap(len(plan.Offers)), fmt.Append(nil, piece.Range)
		for i, o := range plan.Offers {
			if !plan.Gone.Has(i) {
				set.Set(i)
				h = append(h, o.Root[:]...)
			}
		}
		s := slot.Segment{Range: piece.Range, Contributors: set, Root: slot.Hash(h)}
		reports = append(reports, ReportSegment{Group: plan.Group(), Segment: s})
	}
	return reports
}

func (d *simDisk) state() (ReportApplied, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return ReportApplied{Height: d.mu.height, Slot: d.mu.slot, StateRoot: d.mu.root}, d.mu.held
}

func (d *simDisk) become(height, at uint64, root slot.Root) []Report {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.held, d.mu.height, d.mu.slot, d.mu.root = true, height, at, root
	return []Report{ReportApplied{Height: height, Slot: at, StateRoot: root}}
}

func (d *simDisk) hold(outcome slot.Root) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.outcomes[outcome] = true
}

func (d *simDisk) apply(c slot.Record) []Report {
	at, _ := d.state()
	if c.Height != at.Height+1 {
		return []Report{at} // done before
	}
	root := at.StateRoot
	if c.Kind == slot.Step {
		o := c.Outcome()
		root = slot.Hash(append(root[:], o[:]...))
	}
	return d.become(c.Height, c.Slot, root)
}

// train offers a contribution to every slot as soon as the one before is applied.
func (p *simPeer) train(ctx context.Context) {
	p.driver.Report(ReportContributes{Contributes: true})
	for {
		v, err := p.driver.WaitView(ctx, func(v View) bool {
			return v.Done || v.IsMember && v.Synced &&
				v.Applied == v.Tip.Height
		})
		if err != nil || v.Done {
			return
		}
		root := slot.Hash(fmt.Append([]byte(p.signer.ID()), v.AppliedSlot+1))
		p.driver.Report(ReportOffer{Slot: v.AppliedSlot + 1, Base: v.AppliedSlot, Weight: 10, Root: root})
		at := v.AppliedSlot
		if _, err := p.driver.WaitView(ctx, func(v View) bool { return v.Done || v.AppliedSlot > at }); err != nil {
			return
		}
	}
}

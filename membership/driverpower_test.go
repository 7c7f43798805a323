package membership

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/disk/powerfs"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/store"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// powerWorld is a swarm of drivers whose logs, outcomes and states are on disks that lose power.
// All that anybody says goes past the watcher, which checks I1, I2, I5 and I6 over all peers and
// all their lives.
type powerWorld struct {
	*swarm
	point point
	mu    struct {
		sync.Mutex
		watch *watcher
		// of every segment that was reduced: a peer that lacks one fetches it
		bytes  map[slot.Root][]byte
		victim *powerPeer // whose power is cut
	}
}

// point is where the power goes: at the first Save with an entry for which of holds, or at the
// first outcome.
type point struct {
	of   func(p *powerPeer, e wire.Entry) bool // nil: an outcome
	kind powerfs.Kind                          // of operation
	cut  powerfs.Cut
	lose func(m wire.Message) bool // what the network loses, so that it comes to that
}

// powerPeer is one peer over all its lives.
type powerPeer struct {
	*simPeer
	world *powerWorld
	name  *labPeer // to the watcher
	fs    *powerfs.FS
	store *store.File
	state *checkpoint.Store

	said struct {
		sync.Mutex
		offer    uint64
		words    map[wire.Position]uint32 // votes, proposals and promises: the highest ballot
		votes    map[slot.Ref]slot.Root
		haves    map[slot.Ref]slot.Root
		forks    map[slot.Ref]slot.Root
		outcomes map[slot.Root]uint64 // HAVE: heights
		applied  map[uint64]bool
	}
}

func newPowerWorld(s *swarm, at point) *powerWorld {
	w := &powerWorld{swarm: s, point: at}
	w.mu.watch, w.mu.bytes = newWatcher(), map[slot.Root][]byte{}
	return w
}

func (w *powerWorld) peer(n byte) *powerPeer {
	p := &powerPeer{
		simPeer: &simPeer{swarm: w.swarm, signer: newTestSigner(n)}, world: w, name: &labPeer{name: fmt.Sprint(n)},
		fs: powerfs.New(),
	}
	p.said.words, p.said.votes, p.said.forks = map[wire.Position]uint32{}, map[slot.Ref]slot.Root{},
		map[slot.Ref]slot.Root{}
	p.said.haves = map[slot.Ref]slot.Root{}
	p.said.outcomes, p.said.applied = map[slot.Root]uint64{}, map[uint64]bool{}
	p.boot()
	return p
}

const powerDir = "/home/peer/run"

// boot starts a process on what the disk has.
func (p *powerPeer) boot() {
	t := p.swarm.t
	var err error
	if p.store, err = store.Open(p.fs, powerDir, p.swarm.rules.Run, 0, rand.Reader, nil); err != nil {
		t.Fatal(err)
	}
	p.state, err = checkpoint.Open(powerDir+"/state",
		checkpoint.Config{Shape: checkpoint.Shape{Elements: 1}, FrameBytes: 64, FS: p.fs})
	if err != nil {
		t.Fatal(err)
	}
	saved := load(t, p.store)
	p.remembers(saved)
	for _, c := range recordsOf(p.store) {
		p.certified(wire.EntryCommit(c))
	}
	old := p.simPeer
	p.simPeer = &simPeer{
		swarm: old.swarm, signer: old.signer, disk: newSimDisk(old.swarm, 0),
		cut: map[slot.PeerID]bool{},
	}
	if at, ok := p.checkpointed(); ok {
		p.disk.become(at.Height, at.Slot, at.StateRoot)
	}
	p.swarm.run(p.simPeer, DriverConfig{Store: p, Transport: p}, p)
}

// die ends the process and the power.
func (p *powerPeer) die(seed uint64) {
	p.fs.Cut()
	p.swarm.mu.Lock()
	delete(p.swarm.mu.peers, p.signer.ID())
	p.swarm.mu.Unlock()
	p.cancel()
	_ = p.driver.Close()
	p.wg.Wait()
	p.fs = p.fs.Reboot(seed)
}

// remembers checks that what this peer said in its lives before is on its disk: "On disk before".
func (p *powerPeer) remembers(saved wire.Saved) {
	p.said.Lock()
	defer p.said.Unlock()
	t, tip := p.swarm.t, saved.Height
	if saved.OfferSeq < p.said.offer {
		t.Errorf("peer %s said OFFER %d, and remembers %d", p.name.name, p.said.offer, saved.OfferSeq)
	}
	for at, ballot := range p.said.words {
		if at.Height > tip && saved.Floor() < ballot {
			t.Errorf("peer %s gave its word at height %d for ballot %d, and remembers %+v", p.name.name,
				at.Height, ballot, saved.Pledge)
		}
	}
	for ref, hash := range p.said.votes {
		if v := saved.Vote; ref.Height > tip &&
			(v == nil || v.Ballot < ref.Ballot || v.Ballot == ref.Ballot && v.Record.Hash() != hash) {
			t.Errorf("peer %s voted at height %d in ballot %d, and remembers %+v", p.name.name, ref.Height, ref.Ballot,
				v)
		}
	}
	for ref, hash := range p.said.haves {
		if v := saved.Have; ref.Height > tip &&
			(v == nil || v.Ballot < ref.Ballot || v.Ballot == ref.Ballot && v.Record.Hash() != hash) {
			t.Errorf("peer %s gave HAVE at height %d in ballot %d, and remembers %+v", p.name.name, ref.Height,
				ref.Ballot, v)
		}
	}
	for ref, hash := range p.said.forks {
		if f := saved.Fork; ref.Height > tip && (f == nil || f.Record.Hash() != hash) {
			t.Errorf("peer %s signed a fork at height %d, and remembers %+v", p.name.name, ref.Height, f)
		}
	}
	for height := range p.said.applied {
		if height > tip {
			t.Errorf("peer %s applied height %d, and its chain ends at %d", p.name.name, height, tip)
		}
	}
	for outcome, height := range p.said.outcomes {
		if !p.state.HasOutcome(height, outcome) {
			t.Errorf("peer %s said HAVE for height %d, and its outcome is lost", p.name.name, height)
		}
	}
}

func (p *powerPeer) Send(to slot.PeerID, b []byte) {
	if p.says(b) {
		p.simPeer.Send(to, b)
	}
}

func (p *powerPeer) Publish(b []byte) {
	if p.says(b) {
		p.simPeer.Publish(b)
	}
}

// says notes what leaves this peer; false if the network loses it.
func (p *powerPeer) says(b []byte) bool {
	m, err := wire.Open(b, p.swarm.rules.Run, testVerify)
	if err != nil {
		p.swarm.t.Errorf("sent %v", err)
		return false
	}
	p.world.mu.Lock()
	p.world.mu.watch.sent(p.name, m)
	p.world.mu.Unlock()
	p.note(m)
	return p.world.point.lose == nil || !p.world.point.lose(m)
}

func (p *powerPeer) note(m wire.Message) {
	p.said.Lock()
	defer p.said.Unlock()
	word := func(ref slot.Ref) {
		at := wire.Position{Height: ref.Height, Prev: ref.Prev}
		p.said.words[at] = max(p.said.words[at], ref.Ballot)
	}
	switch b := m.Body.(type) {
	case wire.Offer:
		p.said.offer = max(p.said.offer, b.Seq)
	case wire.Promise:
		word(b.Ref)
	case wire.Vote:
		word(b.Ref)
		p.said.votes[b.Ref] = b.Hash
	case wire.Draft, wire.Have:
		v := voteIn(b)
		word(v.Ref)
		p.said.haves[v.Ref] = v.Hash
	case wire.Propose:
		word(b.Ref)
		p.said.votes[b.Ref] = b.Hash
	case wire.ForkVote:
		p.said.forks[b.Ref] = b.Hash
	}
}

// Save implements Store, and cuts the power where the world says.
func (p *powerPeer) Save(entries []wire.Entry) error {
	if at := p.world.point; at.of != nil && slices.ContainsFunc(entries,
		func(e wire.Entry) bool { return at.of(p, e) }) {
		p.cutSoon()
	}
	err := p.store.Save(entries)
	if err == nil {
		p.certified(entries...)
	}
	return err
}

// certified tells the watcher what is on disk.
func (p *powerPeer) certified(entries ...wire.Entry) {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	p.world.mu.watch.persisted(p.name, entries)
}

// cutSoon cuts the power of the first peer that comes here, at its next operation of the kind.
func (p *powerPeer) cutSoon() {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	if p.world.mu.victim != nil {
		return
	}
	p.world.mu.victim = p
	at := p.world.point
	p.fs.Plan(func(op powerfs.Op) powerfs.Fault {
		if op.Kind == at.kind {
			return powerfs.Fault{Cut: at.cut}
		}
		return powerfs.Fault{}
	})
}

func (p *powerPeer) Record(height uint64) (wire.Commit, error) { return p.store.Record(height) }
func (p *powerPeer) Load() (wire.Saved, error)                 { return p.store.Load() }
func (p *powerPeer) Close() error                              { return p.store.Close() }

// Do implements Worker: outcomes and states are on the peer's disk. A state is the hash of all
// outcomes applied. What is to be applied must be on disk by now.
func (p *powerPeer) Do(ctx context.Context, work Work, report func(Report)) {
	if apply, ok := work.(WorkApply); ok {
		p.world.mu.Lock()
		p.world.mu.watch.applies(p.name, apply.Record)
		p.world.mu.Unlock()
	}
	p.wg.Go(func() {
		select {
		case <-time.After(20 * time.Millisecond):
			reports, err := p.carryOut(work)
			for _, r := range reports {
				report(r)
			}
			if err != nil && !errors.Is(err, powerfs.ErrPowerCut) {
				p.swarm.t.Errorf("peer %s: %T: %v", p.name.name, work, err)
			}
		case <-ctx.Done():
		}
	})
}

func (p *powerPeer) carryOut(work Work) ([]Report, error) {
	switch work := work.(type) {
	case WorkFound:
		return p.checkpoint(p.disk.become(0, 0, slot.Hash([]byte("initial"))))
	case WorkReduce:
		return p.reduces(work.Plan), nil
	case WorkHold:
		if p.world.point.of == nil {
			p.cutSoon()
		}
		d := work.Draft
		if err := p.hold(d.Height, d.Kind, d.Segments); err != nil {
			return nil, err
		}
		p.said.Lock()
		defer p.said.Unlock()
		if d.Kind == slot.Step {
			p.said.outcomes[d.Outcome()] = d.Height
		}
		return []Report{ReportHeld{Ref: d.Ref, Outcome: d.Outcome()}}, nil
	case WorkApply:
		return p.applies(work.Record)
	case WorkSync:
		s := work.Roots[0]
		return p.checkpoint(p.disk.become(s.Height, s.Slot, s.Root))
	}
	return nil, nil
}

// reduces makes the bytes of this peer's pieces; they follow from the plan.
func (p *powerPeer) reduces(plan slot.Plan) (reports []Report) {
	for _, r := range p.reduce(plan) {
		r := r.(ReportSegment)
		data := slices.Clone(r.Segment.Root[:])
		r.Segment.Root = slot.Cut(data, 64).Root(64)
		p.world.mu.Lock()
		p.world.mu.bytes[r.Segment.Root] = data
		p.world.mu.Unlock()
		reports = append(reports, r)
	}
	return reports
}

func (p *powerPeer) hold(height uint64, kind slot.Kind, segments []slot.Segment) error {
	if kind != slot.Step {
		return nil
	}
	data := make([]slot.Frames, len(segments))
	p.world.mu.Lock()
	for i, s := range segments {
		data[i] = slot.Cut(p.world.mu.bytes[s.Root], p.state.FrameBytes())
	}
	p.world.mu.Unlock()
	return p.state.PutOutcome(height, segments, data)
}

// applies applies a record and makes a checkpoint of every other slot.
func (p *powerPeer) applies(r slot.Record) ([]Report, error) {
	if err := p.hold(r.Height, r.Kind, r.Segments); err != nil {
		return nil, err
	}
	p.said.Lock()
	p.said.applied[r.Height] = true
	p.said.Unlock()
	reports := p.disk.apply(r)
	p.world.mu.Lock()
	at, _ := p.disk.state()
	p.world.mu.watch.holds(p.name, at.Height, at.StateRoot)
	p.world.mu.Unlock()
	if r.Slot%2 == 0 {
		return p.checkpoint(reports)
	}
	return reports, nil
}

// checkpoint puts the state on disk before it is reported.
func (p *powerPeer) checkpoint(reports []Report) ([]Report, error) {
	at, _ := p.disk.state()
	b, err := json.Marshal(at)
	if err == nil {
		err = disk.Replace(p.fs, powerDir+"/checkpoint", b)
	}
	if err != nil {
		return nil, err
	}
	return reports, nil
}

func (p *powerPeer) checkpointed() (at ReportApplied, ok bool) {
	b, err := disk.Read(p.fs, powerDir+"/checkpoint", 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return at, false
	}
	if err == nil {
		err = json.Unmarshal(b, &at)
	}
	if err != nil {
		p.swarm.t.Fatal(err)
	}
	return at, true
}

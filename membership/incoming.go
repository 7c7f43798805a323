package membership

import (
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// incoming is a past that is being gathered.
type incoming struct {
	height  uint64
	parts   uint32
	got     [][]byte
	opening bool // all is there, and is being verified
}

const (
	// A peer that is no member of the tip shows a past for so many Timing.Retry, before the next
	// one that is asked may take its place. That doubles when all have been asked. So strangers
	// hold up the others for a while each, and an honest peer that is slow gets its time.
	firstLease  = 16
	maxLease    = 6 // doublings
	besideEvery = 4 // Timing.Retry between questions to others then
	partsARetry = 8 // so many parts more have one Timing.Retry more
)

// onPastPart takes a part of a past, of a peer that was asked for a record: it has forgotten that.
func (m *Machine) onPastPart(msg wire.Message, p wire.PastPart) error {
	co, n := m.competing, &m.catchup.need
	if co.gathering == nil || p.Part == 0 && co.givesWay(msg.From, n) {
		if !co.beginPast(msg, p, n) {
			return ErrStale
		}
	}
	return co.takePart(msg.From, p)
}

// beginPast starts to gather the chain of a peer that has forgotten the record which this one needs
// next.
func (co *competing) beginPast(msg wire.Message, p wire.PastPart, n *need) bool {
	a := co.presence.known[memberKey{msg.From, msg.Incarnation}]
	if n.from != co.chain.Height()+1 || n.from > p.Floor || !slices.Contains(n.asked, msg.From) ||
		a == nil || a.alive == nil || co.own.left || a.alive.Height <= p.Height || co.doubts.has(msg.From) ||
		slices.Contains(co.refused, a.alive.Branch) || co.isForeign(msg.From, a.alive.Branch) {
		return false
	}
	co.gathering = &branch{
		claim: *a.alive, from: msg.From, base: co.chain.Height(), asked: never, began: co.now, got: co.now,
	}
	return true
}

// lease is how long a peer that is no member shows a past before others are asked.
func (co *competing) lease(n *need) time.Duration {
	lease := firstLease * co.cfg.Timing.Retry << min(n.passes, maxLease)
	if r := co.gathering; r != nil && r.past != nil { // a large one takes a slow link long
		lease += time.Duration(r.past.parts) * co.cfg.Timing.Retry / partsARetry
	}
	return lease
}

// givesWay says whether the peer that shows a past gives way to another one: it is no member of the
// tip, and the other one is, or is the one that was asked last, since the first had its time.
func (co *competing) givesWay(to slot.PeerID, n *need) bool {
	r := co.gathering
	if r.past == nil || r.past.opening || r.from == to || co.ofTip(r.from) {
		return false
	}
	last := len(n.asked) > 0 && n.asked[len(n.asked)-1] == to
	return co.ofTip(to) || last && co.now-r.began >= co.lease(n)
}

func (co *competing) ofTip(p slot.PeerID) bool { return slot.Find(co.chain.Members(), p) >= 0 }

// ofRun says whether a peer is a member of the tip, or decided before a fork of this chain that is
// provisional: those that were cut off show the branch that they went on with.
func (co *competing) ofRun(p slot.PeerID) bool {
	cut, _ := co.chain.Provisional()
	return co.ofTip(p) || slot.Find(cut.Electors, p) >= 0
}

// makeWay ends the gathering of what a stranger shows, if a member announces a branch that this
// peer might switch to: strangers, one after the other, would keep the members of two branches
// apart.
func (co *competing) makeWay(p slot.PeerID, a wire.Alive) {
	r := co.gathering
	known := slices.Contains(co.refused, a.Branch) || slices.Contains(co.judged, a.Tip) && !co.mayMoveOn()
	if r == nil || r.past != nil && r.past.opening || co.ofRun(r.from) || !co.ofRun(p) || known || co.own.left ||
		co.doubts.has(p) || co.isForeign(p, a.Branch) || !co.worthGathering(a) {
		return
	}
	co.gathering = nil
}

// isForeign says whether a peer has shown, for a branch that it announces, a chain with another
// founding, or one that leads below what this peer remembers. It would show the same again.
func (co *competing) isForeign(p slot.PeerID, branch slot.Root) bool {
	return slices.Contains(co.foreign, shownBy(p, branch))
}

func shownBy(p slot.PeerID, branch slot.Root) slot.Root {
	return slot.Hash(append([]byte(p), branch[:]...))
}

// pursuePast asks others beside a peer that shows a past and is no member. It says whether no past
// is gathered, and questions go on as ever.
func (m *Machine) pursuePast() (none bool) {
	co, n := m.competing, &m.catchup.need
	r := co.gathering
	switch {
	case r == nil || r.past == nil:
		return true
	case r.past.opening:
	case !co.ofTip(r.from):
		m.catchup.askBeside(r.from, co.now-r.began >= co.lease(n))
	}
	return false
}

// askBeside asks another peer while a stranger shows a past: a member of the tip, or whoever is
// next once the stranger had its time.
func (cu *catchup) askBeside(shows slot.PeerID, hadItsTime bool) {
	n, others := &cu.need, without(cu.ahead(), shows)
	if !hadItsTime {
		others = slices.DeleteFunc(others, func(p slot.PeerID) bool { return slot.Find(cu.chain.Members(), p) < 0 })
	}
	if n.from != cu.chain.Height()+1 || cu.now-n.at < besideEvery*cu.cfg.Timing.Retry || len(others) == 0 {
		return
	}
	slices.Sort(others)
	i, found := slices.BinarySearch(others, n.beside)
	if found {
		i++
	}
	if i == len(others) {
		i, n.passes = 0, n.passes+1
	}
	n.at, n.beside = cu.now, others[i]
	cu.send(n.of(others[i]), others[i])
}

// takePart adds a part to the past that is gathered. Once that is whole it is verified.
func (co *competing) takePart(from slot.PeerID, p wire.PastPart) error {
	r := co.gathering
	if from != r.from || r.chain != nil && r.chain.Height() >= p.Height || r.past == nil && r.next() > p.Floor ||
		r.past != nil && r.past.opening {
		return ErrStale
	}
	if r.past == nil || r.past.height != p.Height {
		r.chain, r.past = nil, &incoming{height: p.Height, parts: p.Parts}
	}
	in := r.past
	if p.Part != uint32(len(in.got)) || p.Parts != in.parts {
		return ErrStale
	}
	last, size := p.Part+1 == p.Parts, len(p.Data)
	if p.Part >= p.Parts || p.Parts > wire.MaxPast/wire.PastPartSize || size == 0 ||
		!last && size != wire.PastPartSize {
		// many small parts would take all the time that others wait
		co.doubts.add(from, ReasonBadChain, "a part of its past is not as long as parts are")
		co.gathering = nil
		return chain.Invalid("part %d of %d of a past, of %d bytes", p.Part, p.Parts, size)
	}
	in.got = append(in.got, p.Data)
	r.bytes += size
	r.got, r.asked = co.now, never
	if !last {
		co.pursue()
		return nil
	}
	in.opening = true
	w := WorkOpen{of: r, parts: in.got, rules: co.cfg.Rules, pin: co.cfg.Pin, verify: co.cfg.Verify}
	if co.chain.Pinned() {
		w.founding = co.chain.Founding()
	}
	co.work(w)
	return nil
}

// WorkOpen asks the driver itself, or what stands for it, to verify a past that another peer has
// shown. Open does it. It takes some 65 us for each of up to a million signatures, and a third of a
// us for each of 64 Mi entries of lists, so the loop does not wait for it.
type WorkOpen struct {
	of       *branch
	parts    [][]byte
	rules    chain.Rules
	pin      slot.Root
	founding slot.Root // of the own chain; zero: it has none, or lacks the pin
	verify   slot.Verifier
}

// ReportOpened says what came out.
type ReportOpened struct {
	of      *branch
	chain   *chain.Chain
	foreign bool // it has another founding
	err     error
}

func (WorkOpen) isWork()       {}
func (ReportOpened) isReport() {}

// Open verifies the past. It fails soon after the driver has ended.
func (w WorkOpen) Open(ended func() bool) ReportOpened {
	p, commits, err := wire.UnpackPast(slices.Concat(w.parts...))
	if err != nil {
		return ReportOpened{of: w.of, err: err}
	}
	if f := chain.FoundingOf(w.rules.Run, p); !w.founding.IsZero() && f != w.founding {
		err := chain.Invalid("it has another founding, %s: if that is the run's, start this peer again with --pin %s",
			f.Short(), f)
		return ReportOpened{of: w.of, foreign: true, err: err}
	}
	verify := func(by slot.PeerID, data, sig []byte) bool { return !ended() && w.verify(by, data, sig) }
	c, err := chain.Open(w.rules, w.pin, p, commits, verify)
	return ReportOpened{of: w.of, chain: c, err: err}
}

func (m *Machine) onOpened(r ReportOpened) {
	if better := m.competing.opened(r); better != nil {
		m.switchTo(better, m.chain.CommonHeight(better.chain))
	}
}

// opened takes the verified past. It gives the branch if that is the chain to be on.
func (co *competing) opened(o ReportOpened) (better *branch) {
	r := co.gathering
	switch {
	case r == nil || r != o.of:
		return nil
	case o.err != nil:
		if o.foreign {
			co.foreign = appendRecent(co.foreign, shownBy(r.from, r.claim.Branch))
		}
		co.doubts.addLong(r.from, ReasonBadChain, "its chain does not verify: "+o.err.Error(), co.now-r.got)
		co.gathering = nil
		return nil
	}
	r.chain, r.past, r.base = o.chain, nil, o.chain.Height()
	if !r.opened { // who shows the branch has its time without that for checking, once
		r.began, r.opened = r.began+co.now-r.got, true
	}
	r.got, r.asked = co.now, never
	return co.choose()
}

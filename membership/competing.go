package membership

import (
	"fmt"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// branch is another branch of the run, gathered and verified beside the own chain, from the newest
// record that both have.
type branch struct {
	claim  wire.Alive // what its holder announces of it
	from   slot.PeerID
	base   uint64       // the record at this height may be common; those above it are asked for
	back   uint64       // how far the next guess at the common record goes back
	chain  *chain.Chain // nil until a common record is found
	answer need         // to the newest question
	asked  time.Duration
	began  time.Duration
	got    time.Duration // when its newest full answer came
	bytes  int
	others bool // another peer claims a chain, too, and waits
}

const (
	// of records gathered before a branch must have shown that it is better. A peer whose chain
	// lacks the pin, and is a part of the gathered one, goes on and holds the hashes alone
	maxBranchBytes = 256 << 20
	// how far below a claim the first guess at the common record lies; the next goes twice as far
	firstProbe   = 8
	maxGathering = 256 // Timing.Retry for the whole of a branch: others' claims wait as long
	fewRecords   = 16  // that must come within 8 Timing.Retry
)

// youngSlots bounds what is given up without an operator: a branch of fewer slots, or one that
// never had a second member.
const youngSlots = 16

// meet starts to gather a chain that claims to be better. The claim moves nobody: verified
// records do.
func (co *competing) meet(p slot.PeerID, a wire.Alive) {
	known := slices.Contains(co.refused, a.Branch) || slices.Contains(co.judged, a.Tip) && !co.mayMoveOn()
	if co.own.left || known || co.doubts.has(p) || co.path != nil || !co.worthGathering(a) {
		return
	}
	if r := co.gathering; r != nil {
		r.others = r.others || p != r.from
		return
	}
	base := min(co.chain.Height(), a.Height-1)
	co.gathering = &branch{
		claim: a, from: p, base: base - min(base, firstProbe), back: firstProbe, asked: never,
		began: co.now, got: co.now,
	}
	co.pursue()
}

// worthGathering says whether this peer could switch to the claimed branch if the claim is true.
// That takes more work, or as much and then a hash decides; or the end of the run, while the own
// chain is not the run; or a branch that goes on where this peer cannot stay, or need not stay.
// Where members may lie, work is not what comes first.
func (co *competing) worthGathering(a wire.Alive) bool {
	if co.chain.Has(a.Height, a.Tip) {
		return false
	}
	_, provisional := co.chain.Provisional()
	if last := co.cfg.Rules.LastSlot; last > 0 && a.Slot >= last && provisional {
		return true // it claims to be at the run's end, which comes before this branch
	}
	goesOn := a.Height > co.chain.Height() && (!co.elector() || co.fork.stalled() || co.fork.signed != nil)
	return goesOn || !co.chain.Pinned() || a.Work >= co.chain.Tip().Work || co.cfg.Rules.Byzantine
}

// pursue asks for the next records of the branch, and gives up on one that is not shown.
func (co *competing) pursue() {
	r := co.gathering
	if r == nil {
		return
	}
	leads := co.leads(r)
	if co.now-r.got > 8*co.cfg.Timing.Retry || r.bytes > co.most && !leads ||
		co.now-r.began > maxGathering*co.cfg.Timing.Retry && (!leads || r.others) {
		co.doubts.add(r.from, ReasonUnshownChain, "the chain that it claims is not shown")
		co.gathering = nil
		return
	}
	if co.now-r.asked >= co.cfg.Timing.Retry {
		r.asked, r.answer = co.now, need{from: r.next()}
		co.send(wire.Need{From: r.answer.from}, r.from)
	}
}

// leads says whether a gathered chain goes on from the own one, which lacks the pin.
func (co *competing) leads(r *branch) bool {
	return !co.chain.Pinned() && (r.chain == nil || co.chain.CommonHeight(r.chain) == co.chain.Height())
}

// restart gives whoever shows a branch the full time for it: this peer did not run, and took no
// answer.
func (co *competing) restart() {
	if r := co.gathering; r != nil {
		r.began, r.got = co.now, co.now
	}
}

// next is the height that is asked for.
func (r *branch) next() uint64 {
	if r.chain == nil {
		return r.base + 1
	}
	return r.chain.Height() + 1
}

// awaits says whether a record is the one that was asked for.
func (co *competing) awaits(msg wire.Message, c wire.Commit) bool {
	r := co.gathering
	if r == nil || c.Record.Height != r.next() {
		return false
	}
	return r.chain == nil && msg.From == r.from || r.chain != nil && c.Record.Prev == r.chain.TipHash()
}

// extend verifies the next record of the branch. It gives the branch once what is verified is the
// chain to be on.
func (co *competing) extend(c wire.Commit) (better *branch, err error) {
	r := co.gathering
	whole := r.answer.ends(c)
	// A slow link brings an answer little by little, but not record by record.
	if r.asked = co.now; r.next()%fewRecords == 0 {
		r.got = co.now
	}
	if r.chain == nil && !co.findCommon(c) {
		co.askFurther(whole)
		return nil, nil
	}
	if err := r.chain.Extend(c, co.cfg.Verify); err != nil {
		co.doubts.add(r.from, ReasonBadChain, "its chain does not verify: "+err.Error())
		co.gathering = nil
		return nil, err
	}
	if r.bytes += c.Size(); r.bytes > co.most && co.leads(r) {
		r.chain.Release(r.chain.Height())
	}
	if h := c.Record.Height; co.chain.Holds(h) {
		own, before := co.chain.Commit(h), r.chain.At(h-1)
		co.evidence.compare(own, c, before.Members)
	}
	switch {
	case co.prefers(r.chain):
		return co.decide(), nil
	case r.chain.Height() >= r.claim.Height:
		co.judge()
	}
	co.askFurther(whole)
	return nil, nil
}

// askFurther asks for the next records once an answer is complete: record by record a branch could
// be drawn out for ever.
func (co *competing) askFurther(whole bool) {
	if r := co.gathering; r != nil && whole {
		r.got, r.asked = co.now, never
		co.pursue()
	}
}

// findCommon says whether a record is the first that the own chain has another one for, or none. If
// it does not follow one of the own chain, the common record lies further back.
func (co *competing) findCommon(c wire.Commit) bool {
	r := co.gathering
	switch {
	case !co.chain.Has(r.base, c.Record.Prev):
		co.goBack()
		return false
	case co.chain.Has(r.base+1, c.Record.Hash()) && r.base+1 < r.claim.Height:
		r.base++
		return false
	case r.base < co.chain.Floor() && !co.worthReading(c):
		return false
	}
	on, err := co.chain.Reread(r.base)
	if err != nil {
		co.gathering = nil // the disk fails: the store says so
		return false
	}
	r.chain = on
	return true
}

// goBack asks for older records of the branch. The own ones that are held come first.
func (co *competing) goBack() {
	r := co.gathering
	if r.base == 0 {
		co.doubts.add(r.from, ReasonBadChain, "its chain does not follow from the run's spec")
		co.gathering = nil
		return
	}
	r.back *= 2
	to := r.base - min(r.base, r.back)
	if floor := co.chain.Floor(); r.base > floor {
		to = max(to, floor)
	}
	r.base, r.got, r.asked = to, co.now, never
	co.pursue()
}

// worthReading says whether a branch that parts from the own chain below the records that are held
// may be moved to: only then those below are read, which takes long.
func (co *competing) worthReading(c wire.Commit) bool {
	r := co.gathering
	electors, err := co.chain.ElectorsAt(r.base)
	if err == nil {
		err = c.Certificate.Verify(c.Record, electors, co.cfg.Rules.Quorum, co.cfg.Verify)
	}
	switch {
	case err != nil:
		co.doubts.add(r.from, ReasonBadChain, "its chain does not verify: "+err.Error())
		co.gathering = nil
		return false
	case co.mayGiveUp(r.base, c):
		return true
	}
	co.gathering = nil
	co.refuse(r, r.base, c.Record.Hash())
	return false
}

// judge ends the gathering of a chain that is all there and not the one to be on. The claim
// was a lie if it promised more than the branch is.
func (co *competing) judge() {
	r := co.gathering
	co.gathering = nil
	if tip := r.chain.Tip(); r.chain.TipHash() != r.claim.Tip || tip.Work != r.claim.Work {
		co.doubts.add(r.from, ReasonBadChain, "its chain is not what it claims")
		return
	}
	co.judged = appendRecent(co.judged, r.claim.Tip)
	if !r.chain.Pinned() {
		co.doubts.add(r.from, ReasonNoPin, "its chain does not have the pinned record: it is another run, or another "+
			"branch of it")
	}
}

// forgetJudged has other branches judged again: the own chain is another one now, or has less work
// after a fork, and may be the worse one. Without it two branches that stand still never meet.
func (co *competing) forgetJudged() { co.judged, co.refused = nil, nil }

// competing gathers other branches of the run and says which one to be on.
type competing struct {
	*facts
	*effects
	presence *presence
	own      *own
	doubts   *doubts
	pledges  *pledges
	fork     *fork
	evidence *evidence

	most      int         // maxBranchBytes
	gathering *branch     // nil: none
	judged    []slot.Root // tips of branches that were gathered and are not better
	refused   []slot.Root // better branches that were reported to be out of reach
}

// prefers says whether a verified chain is the one to be on. Chains with the pin come first; of
// those the better one. A chain that goes on from the own tip does not compete with it. mayFollow
// decides the case that it goes on by a fork.
func (co *competing) prefers(c *chain.Chain) bool {
	own, common := co.chain, co.chain.CommonHeight(c)
	switch {
	case c.Height() == common || !c.Pinned():
		return false // never to an ancestor of the own tip
	case !own.Pinned():
		return true
	case co.pledges.kept[wire.Position{Height: c.Height() + 1, Prev: c.TipHash()}].Fork != nil:
		return false // never back to a record that this peer forked, until its chain has grown
	case common == own.Height():
		return co.mayFollow(c.At(common+1)) || c.Tip().Work > own.Tip().Work
	}
	return c.Better(own)
}

// ofRun says whether a peer is a member of the tip, or decided before a fork of this chain that is
// provisional: those that were cut off show the branch that they went on with.
func (co *competing) ofRun(p slot.PeerID) bool {
	cut, _ := co.chain.Provisional()
	return slot.Find(co.chain.Members(), p) >= 0 || slot.Find(cut.Electors, p) >= 0
}

// makeWay ends the gathering of what a stranger shows, if a member announces a branch that this
// peer might switch to: strangers, one after the other, would keep the members of two branches
// apart.
func (co *competing) makeWay(p slot.PeerID, a wire.Alive) {
	r := co.gathering
	known := slices.Contains(co.refused, a.Branch) || slices.Contains(co.judged, a.Tip) && !co.mayMoveOn()
	if r == nil || co.ofRun(r.from) || !co.ofRun(p) || known || co.own.left || co.doubts.has(p) ||
		!co.worthGathering(a) {
		return
	}
	co.gathering = nil
}

// mayFollow says whether a certified successor of the own tip may be followed whatever its work is.
// Regular ones always may. A fork may be followed by the members that signed it, and by a member
// that may move on. Other peers, which decide nothing here, follow the tip's members.
func (co *competing) mayFollow(r slot.Record) bool {
	if r.Kind != slot.Fork || co.chain.Height() == 0 {
		return true
	}
	if _, signed := chain.FindMember(r.Electors(), co.cfg.Self, co.cfg.Incarnation); signed {
		return true
	}
	return !co.fork.entitled() || co.mayMoveOn()
}

// mayMoveOn says whether this peer may follow a fork of its tip that others made: where it would
// fork itself by now. A fork by a majority it need not wait for, once it hears no quorum.
func (co *competing) mayMoveOn() bool {
	return co.fork.stalled() || co.fork.without && co.chain.MajorityForks()
}

// mayGiveUp says whether this peer may give up its own records above a height without an operator,
// for another record that follows there. Where members may lie, another founding is no reason to
// give up a run that has had a second member: anybody can found one, of whatever work.
func (co *competing) mayGiveUp(above uint64, other wire.Commit) bool {
	c := co.chain
	young := c.Tip().Slot-c.SlotAt(above) < youngSlots
	switch {
	case !c.Pinned():
		return true
	case !co.cfg.Rules.Byzantine:
		return young || !c.SharedSince(above) || above > 0 && c.AsAgreed(other)
	case above > 0:
		return c.Height()-above <= chain.MaxSiblingAge
	}
	return young && !c.SharedSince(0)
}

// decide moves to the gathered chain, has its records fetched again if they are not held, or says
// once per branch that an operator must choose.
func (co *competing) decide() (better *branch) {
	r, common := co.gathering, co.chain.CommonHeight(co.gathering.chain)
	co.gathering = nil
	if common < r.chain.Floor() {
		co.path = r.chain
		return nil
	}
	first := r.chain.Commit(common + 1)
	switch {
	case co.own.left:
	case first.Record.Kind == slot.Fork && common > 0 && co.removes(r.chain):
		co.refuseRemoval(r, common)
	case co.mayGiveUp(common, first):
		return r
	case !slices.Contains(co.refused, r.chain.Hash(common+1)):
		co.refuse(r, common, r.chain.Hash(common+1))
	}
	return nil
}

// refuse leaves it to an operator whether to move to a branch that parted too long ago.
func (co *competing) refuse(r *branch, common uint64, first slot.Root) {
	co.refused, co.judged = appendRecent(co.refused, first), appendRecent(co.judged, r.claim.Tip)
	if r.claim.Branch != co.chain.Branch() {
		co.refused = appendRecent(co.refused, r.claim.Branch)
	}
	co.reportPeer(EventRefused, ReasonOldBranch, r.from,
		fmt.Sprintf("its branch of the run comes before the one here, which has grown by %d records and %d slots "+
			"since they parted at height %d: too much to be given up by itself. If that branch is the right one, "+
			"start this peer again with --pin %s; else stop the peers of the other branch", co.chain.Height()-common,
			co.chain.Tip().Slot-co.chain.SlotAt(common), common, first))
}

// removes says whether a branch has removed this peer, and the own chain has not. Where fewer than
// a quorum have parted from it, that binds nobody else: one member that forks alone could break a
// run up so.
func (co *competing) removes(c *chain.Chain) bool {
	return c.Access().Removed(co.cfg.Self) && !co.chain.Access().Removed(co.cfg.Self)
}

func (co *competing) refuseRemoval(r *branch, common uint64) {
	co.refused = appendRecent(co.refused, r.claim.Branch)
	co.reportPeer(EventRefused, ReasonFewBranch, r.from,
		fmt.Sprintf("its branch of the run would come before the one here, but it was forked at height %d without "+
			"this peer, and removes it: it is not followed", common))
}

package membership

import (
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// rival is another branch of the run, gathered and verified beside the own chain, from the newest record that both have.
type rival struct {
	claim Alive // what its holder says of it
	from  slot.PeerID
	base  uint64 // the record at this height may be common; those above it are asked for
	back  uint64 // how far the next guess at the common record goes back
	chain *chain // nil until a common record is found
	asked time.Duration
	began time.Duration
	got   time.Duration // when its newest full answer came
	bytes int
}

const (
	maxRivalBytes = 64 << 20 // of records gathered before a rival must have shown that it is better
	firstProbe    = 8        // how far below a claim the first guess at the common record lies; the next goes twice as far
	maxGathering  = 256      // Timing.Retry for the whole of a rival: others' claims wait as long
	maxJudged     = 16       // tips, and branches, that were gathered and not moved to
)

// meetRival starts to gather a chain that claims to be better. The claim moves nobody: verified records do.
func (m *Machine) meetRival(p slot.PeerID, a Alive) {
	known := slices.Contains(m.refused, a.Branch) || slices.Contains(m.judged, a.Tip) && !m.stalled()
	if m.rival != nil || m.left || known || m.doubts(p) || !m.worthGathering(a) {
		return
	}
	base := min(m.chain.height(), a.Height-1)
	m.rival = &rival{claim: a, from: p, base: base - min(base, firstProbe), back: firstProbe, asked: never, began: m.now, got: m.now}
	m.pursueRival()
}

// worthGathering says whether a claim could move this peer if it is true: more work, or as much, which a hash decides; or a branch
// that goes on where this peer cannot, or need not stay.
func (m *Machine) worthGathering(a Alive) bool {
	if m.chain.has(a.Height, a.Tip) || m.showsBarren(a) {
		return false
	}
	goesOn := a.Height > m.chain.height() && (!m.elector() || m.stalled() || m.fork.signed != nil)
	return goesOn || !m.chain.pinned || a.Work >= m.chain.tip().Work
}

// pursueRival asks for the rival's next records, and gives up on one that does not answer.
func (m *Machine) pursueRival() {
	r := m.rival
	if r == nil {
		return
	}
	if m.now-r.got > 8*m.cfg.Timing.Retry || m.now-r.began > maxGathering*m.cfg.Timing.Retry || r.bytes > maxRivalBytes {
		m.doubt(r.from, "the chain that it claims is not shown")
		m.rival = nil
		return
	}
	if m.now-r.asked >= m.cfg.Timing.Retry {
		r.asked = m.now
		m.send(Need{From: r.next()}, r.from)
	}
}

// next is the height that is asked for.
func (r *rival) next() uint64 {
	if r.chain == nil {
		return r.base + 1
	}
	return r.chain.height() + 1
}

// isRival says whether a record is the one that was asked for.
func (m *Machine) isRival(msg Message, c Commit) bool {
	r := m.rival
	if r == nil || c.Record.Height != r.next() {
		return false
	}
	return r.chain == nil && msg.From == r.from || r.chain != nil && c.Record.Prev == r.chain.tipHash()
}

// extendRival verifies the rival's next record, and moves once what is verified is the chain to be on.
func (m *Machine) extendRival(c Commit) error {
	r := m.rival
	if r.chain == nil && !m.findCommon(c) {
		return nil
	}
	if err := r.chain.extend(c, m.cfg.Verify); err != nil {
		m.doubt(r.from, "its chain does not verify: "+err.Error())
		m.rival = nil
		return err
	}
	r.bytes += len(c.Append(nil))
	switch {
	case m.prefers(r.chain):
		m.decideMove()
	case r.chain.height() >= r.claim.Height:
		m.judgeRival()
	case (r.chain.height()-r.base)%commitsAtOnce == 0: // record by record it could be drawn out for ever
		r.got, r.asked = m.now, never
		m.pursueRival()
	}
	return nil
}

// findCommon looks whether a record follows one of the own chain; if not, the common one lies further back.
func (m *Machine) findCommon(c Commit) bool {
	r := m.rival
	if m.chain.has(r.base, c.Record.Prev) {
		r.chain = m.chain.upTo(r.base)
		return true
	}
	r.back *= 2
	r.base -= min(r.base, r.back)
	r.got, r.asked = m.now, never
	m.pursueRival()
	return false
}

// judgeRival ends the gathering of a chain that is all there and not the one to be on. What claimed more than it is was a lie.
func (m *Machine) judgeRival() {
	r := m.rival
	m.rival = nil
	if tip := r.chain.tip(); r.chain.tipHash() != r.claim.Tip || tip.Work != r.claim.Work {
		m.doubt(r.from, "its chain is not what it claims")
		return
	}
	m.judged = remember(m.judged, r.claim.Tip)
}

// remember appends to a short list, out of which the oldest falls.
func remember(list []slot.Root, h slot.Root) []slot.Root {
	list = append(list, h)
	return list[max(0, len(list)-maxJudged):]
}

// Peers whose claims came to nothing are passed over: so many, and for so many Timing.Retry since the first of them.
const (
	maxDoubted = 16
	doubtFor   = 32
)

// doubt passes over a peer whose chain is not shown, not valid or not what it said, so that others' claims are looked at before
// its next one. It is named once for that time.
func (m *Machine) doubt(p slot.PeerID, why string) {
	if m.doubts(p) {
		return
	}
	if len(m.doubted) == 0 {
		m.doubtedAt = m.now
	}
	m.doubted = append(m.doubted, p)
	m.doubted = m.doubted[max(0, len(m.doubted)-maxDoubted):]
	m.event(Event{Kind: EventRefused, Height: m.chain.height(), Slot: m.chain.tip().Slot, Peer: p, Detail: why})
}

func (m *Machine) doubts(p slot.PeerID) bool {
	if len(m.doubted) > 0 && m.now-m.doubtedAt > doubtFor*m.cfg.Timing.Retry {
		m.doubted = nil
	}
	return slices.Contains(m.doubted, p)
}

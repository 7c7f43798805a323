package membership

import (
	"bytes"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

const (
	youngSlots    = 16       // a chain of fewer slots may be given up for another founding; so may one that had a single member
	maxRivalBytes = 64 << 20 // of records gathered before a rival must have shown that it is better
)

// rival is another founding of the same run, gathered and verified beside the own chain.
type rival struct {
	chain    *chain
	founding slot.Root
	from     slot.PeerID
	asked    time.Duration
	got      time.Duration // when its newest record came
	bytes    int
}

// better is a total order on chains: work, then the lower hash of the founding. It is not the tip's hash: that changes with
// every record, and two founders could change places.
func better(work uint64, founding slot.Root, than *chain) bool {
	if own := than.tip().Work; work != own {
		return work > own
	}
	own := than.founding()
	return bytes.Compare(founding[:], own[:]) < 0
}

// mayMove says whether the own chain may be given up: young, or never shared. Otherwise that is the operator's to decide.
func (m *Machine) mayMove() bool {
	return m.chain.height() > 0 && (m.chain.tip().Slot < youngSlots || m.chain.solo) && !m.left
}

// meetRival starts to gather a chain that claims to be better. The claim moves nobody: verified records do.
func (m *Machine) meetRival(p slot.PeerID, a Alive) {
	if m.now-m.doubtedAt > doubtFor*m.cfg.Timing.Retry {
		m.doubted = nil
	}
	if m.rival != nil || !better(a.Work, a.Founding, m.chain) || slices.Contains(m.doubted, p) {
		return
	}
	if !m.mayMove() {
		m.refuseRival(p, a)
		return
	}
	m.rival = &rival{chain: newChain(m.cfg.Rules), founding: a.Founding, from: p, asked: never, got: m.now}
	m.pursueRival()
}

// refuseRival says once that another founding of the run claims to be better, and that an operator must choose.
func (m *Machine) refuseRival(p slot.PeerID, a Alive) {
	if m.left || m.refused == a.Founding {
		return
	}
	m.refused = a.Founding
	m.event(Event{
		Kind: EventRefused, Height: a.Height, Slot: a.Slot, Peer: p, Root: a.Founding,
		Detail: "another founding of this run claims to be the better one; both are too old to merge: stop the peers of one and start them anew",
	})
}

// pursueRival asks for the rival's next records, and gives up on one that does not answer.
func (m *Machine) pursueRival() {
	r := m.rival
	if r == nil {
		return
	}
	if m.now-r.got > 8*m.cfg.Timing.Retry || r.bytes > maxRivalBytes {
		m.doubtRival()
		return
	}
	if m.now-r.asked >= m.cfg.Timing.Retry {
		r.asked = m.now
		m.send(Need{From: r.chain.height() + 1}, r.from)
	}
}

// Peers whose claims came to nothing are passed over: so many, and for so many Timing.Retry since the first of them.
const (
	maxDoubted = 16
	doubtFor   = 32
)

// doubtRival gives up a chain that is not shown, or not valid, so that others' claims are looked at before this peer's next one.
func (m *Machine) doubtRival() {
	if len(m.doubted) == 0 {
		m.doubtedAt = m.now
	}
	m.doubted = append(m.doubted, m.rival.from)
	m.doubted = m.doubted[max(0, len(m.doubted)-maxDoubted):]
	m.rival = nil
}

// isRival says whether a record is the next one of the chain being gathered.
func (m *Machine) isRival(c Commit) bool {
	r := m.rival
	if r == nil || c.Record.Height != r.chain.height()+1 || c.Record.Prev != r.chain.tipHash() {
		return false
	}
	return c.Record.Height > 1 || c.Record.Hash() == r.founding
}

// extendRival verifies the rival's next record, and moves once what is verified is the better chain.
func (m *Machine) extendRival(c Commit) error {
	r := m.rival
	if err := r.chain.extend(c, m.cfg.Verify); err != nil {
		m.doubtRival()
		return err
	}
	r.got = m.now
	r.bytes += len(c.Append(nil))
	switch {
	case m.mayMove() && better(r.chain.tip().Work, r.founding, m.chain):
		m.moveToRival()
	case r.chain.height()%commitsAtOnce == 0:
		r.asked = never
		m.pursueRival()
	}
	return nil
}

// moveToRival gives up the own chain. Words said on it stay said (HOLES H7); the state is the other chain's from here on.
func (m *Machine) moveToRival() {
	r, given := m.rival, m.chain
	m.shelve()
	m.persist(EntryRewind{})
	for _, c := range r.chain.commits {
		m.persist(EntryCommit(c))
	}
	m.event(Event{
		Kind: EventSwitched, Height: r.chain.height(), Slot: r.chain.tip().Slot, Members: peersOf(r.chain.electorate()),
		Root: r.founding, Detail: "the chain founded by record " + given.founding().Short() + " is given up for the better one",
	})
	m.rival, m.chain = nil, r.chain
	m.state = modelState{retryAt: never}
	m.mine, m.early, m.need, m.ending = nil, nil, need{at: never}, ending{}
	m.founding.fork = nil
	m.meetMembers(nil)
	m.openDecree()
	m.ask(r.from)
}

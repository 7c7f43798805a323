package chaos

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

// record is a certified record, from an event.
type record struct {
	hash, prev string
	height     uint64
	slot       uint64
	kind       string
	before     string    // root of the state before it, from its certificate
	at         time.Time // when a log first said that it is certified
	members    []string  // that it lists; nil: as the record before it
	electors   int       // that decide after it
}

// rename is a peer that came back under another ID.
type rename struct {
	peer int
	at   time.Time
}

// history is what the event logs of all peers say together.
type history struct {
	records map[string]record // by hash
	// by the record before them: root -> peers that held it; peer 0 stands for certificates
	states    map[string]map[string][]int
	chain     map[string]bool // hashes of the records from the first to the tip
	tip       record
	abandoned map[string]bool // records of branches that were given up when two chains met
	gaps      []string        // slots that a peer skipped, or lost at a restart
	peers     map[string]int  // by all IDs that they ever had
	retired   map[string]bool // IDs of peers that came back under another one
	renamed   []rename
	restarts  int      // of peers with their data
	moved     []string // restarts after which a peer did not listen where it had
}

// reader follows one peer's log through its lives.
type reader struct {
	h       *history
	peer    int
	id      string
	addrs   []string          // where it listened in its last life
	chain   map[uint64]string // hash of the record at each height, as far as the log says
	applied uint64            // newest slot
	// height of the end of the chain that it switches to; 0: it does not switch
	turned uint64
	loose  bool // the next applied slot need not follow the last one
	reborn bool // the next applied slot is the first of a life
}

// readHistory takes the events of each peer, in order. The chain ends where the peers end for which
// finished is true.
func readHistory(logs [][]eventlog.Line, finished []bool) *history {
	h := &history{
		records: map[string]record{}, states: map[string]map[string][]int{}, chain: map[string]bool{},
		abandoned: map[string]bool{}, peers: map[string]int{}, retired: map[string]bool{},
	}
	for i, lines := range logs {
		r := reader{h: h, peer: i + 1, chain: map[uint64]string{}, loose: true}
		for _, l := range lines {
			r.read(l)
		}
		if !finished[i] {
			continue
		}
		if top := slices.Max(append(slices.Collect(maps.Keys(r.chain)), 0)); top > h.tip.height {
			h.tip = h.records[r.chain[top]]
		}
	}
	for at, ok := h.tip, h.tip.height > 0; ok; at, ok = h.records[at.prev] {
		h.chain[at.hash] = true
	}
	h.spreadAbandoned()
	h.certifyStates()
	return h
}

func (r *reader) read(l eventlog.Line) {
	switch l.Event {
	case "peer.started":
		r.begin(l)
	case "record.certified":
		r.h.certify(l)
		r.take(l)
	case "members.changed":
		if now, known := r.h.records[r.chain[l.Height]]; known {
			now.members = l.Members
			r.h.records[now.hash] = now
		}
	case "run.switched":
		r.turn(l.Height)
	case "state.synced":
		r.hold(l)
		r.applied, r.loose, r.reborn = l.Slot, false, false
	case "slot.applied":
		r.hold(l)
		r.follow(l.Slot)
	}
}

// begin begins a life. Without its data directory it is that of a new peer.
func (r *reader) begin(l eventlog.Line) {
	r.reborn = true
	addrs := slices.Sorted(slices.Values(l.Addrs))
	if l.PeerID == r.id {
		r.h.restarts++
		if !slices.Equal(addrs, r.addrs) {
			r.h.moved = append(r.h.moved, fmt.Sprintf("peer %d listened on %v, and after a restart on %v", r.peer,
				r.addrs, addrs))
		}
		r.addrs = addrs
		return
	}
	if r.id != "" {
		r.h.retired[r.id] = true
		r.h.renamed = append(r.h.renamed, rename{r.peer, l.Time})
	}
	r.h.peers[l.PeerID] = r.peer
	r.id, r.addrs, r.applied, r.loose, r.chain = l.PeerID, addrs, 0, true, map[uint64]string{}
}

// certify takes in a record that a log says is certified.
func (h *history) certify(l eventlog.Line) {
	r, known := h.records[l.Record]
	if !known || l.Time.Before(r.at) {
		r.at = l.Time
	}
	r.hash, r.prev, r.height, r.slot, r.kind, r.before = l.Record, l.Prev, l.Height, l.Slot, l.Kind, l.CertifiedRoot
	r.electors = l.Electors
	h.records[l.Record] = r
}

// those are the records for which something holds, in order of height.
func (h *history) those(holds func(record) bool) (rs []record) {
	for _, r := range h.records {
		if holds(r) {
			rs = append(rs, r)
		}
	}
	slices.SortFunc(rs, func(a, b record) int { return cmp.Compare(a.height, b.height) })
	return rs
}

// listed are the records of the chain that say whom they list.
func (h *history) listed() []record {
	return h.those(func(r record) bool { return h.chain[r.hash] && r.members != nil })
}

// kept are the records that were not given up.
func (h *history) kept() []record {
	return h.those(func(r record) bool { return !h.abandoned[r.hash] })
}

// take adds a record to the peer's chain. Just after a chain switch it may replace a record that
// was given up.
func (r *reader) take(l eventlog.Line) {
	if old, had := r.chain[l.Height]; had && old != l.Record && l.Height <= r.turned {
		r.h.abandoned[old] = true
	}
	if l.Height >= r.turned {
		r.turned = 0
	}
	r.chain[l.Height] = l.Record
}

// turn begins a switch to a chain that ends at height top. Its records follow, from the first that
// differs.
func (r *reader) turn(top uint64) {
	r.turned, r.loose = top, true
	for height, hash := range r.chain {
		if height > top {
			r.h.abandoned[hash] = true
			delete(r.chain, height)
		}
	}
}

// hold records the state that a peer holds after a record. Which one that is at a height changes
// with the chain, so a line that comes late names it.
func (r *reader) hold(l eventlog.Line) {
	if l.Record != "" {
		r.h.hold(l.Record, l.StateRoot, r.peer)
	} else if hash, known := r.chain[l.Height]; known {
		r.h.hold(hash, l.StateRoot, r.peer)
	}
}

func (h *history) hold(hash, root string, peer int) {
	if h.states[hash] == nil {
		h.states[hash] = map[string][]int{}
	}
	if !slices.Contains(h.states[hash][root], peer) {
		h.states[hash][root] = append(h.states[hash][root], peer)
	}
}

// goesBack is how many slots a peer may do again that was started again. Peers make a checkpoint
// every four slots, and keep the two newest: the last one may be torn.
const goesBack = 8

// follow checks that slots are applied one after the other. A new life starts from a checkpoint,
// which may be older than the last applied slot; or newer by the one slot whose event was lost in a
// kill.
func (r *reader) follow(slot uint64) {
	ok := slot == r.applied+1
	if r.reborn {
		ok = slot <= r.applied+2 && slot+goesBack > r.applied
	}
	if !ok && !r.loose {
		r.h.gaps = append(r.h.gaps, fmt.Sprintf("peer %d applied slot %d after slot %d", r.peer, slot, r.applied))
	}
	r.applied, r.loose, r.reborn = slot, false, false
}

// spreadAbandoned marks a whole branch as given up if a part of it was: the peers that held the
// rest may be dead.
func (h *history) spreadAbandoned() {
	maps.DeleteFunc(h.abandoned, func(hash string, _ bool) bool { return h.chain[hash] })
	upwards := h.those(func(record) bool { return true })
	for _, r := range slices.Backward(upwards) {
		if _, known := h.records[r.prev]; known && h.abandoned[r.hash] && !h.chain[r.prev] {
			h.abandoned[r.prev] = true
		}
	}
	for _, r := range upwards {
		if h.abandoned[r.prev] && !h.chain[r.hash] {
			h.abandoned[r.hash] = true
		}
	}
}

// forked is the record that the branch with a record goes back to: the one below it that was not
// given up.
func (h *history) forked(r record) record {
	for h.abandoned[r.hash] {
		r = h.records[r.prev]
	}
	return r
}

// branches counts the forks of the chain that were given up.
func (h *history) branches() (n int) {
	for hash := range h.abandoned {
		if !h.abandoned[h.records[hash].prev] {
			n++
		}
	}
	return n
}

// certifyStates adds the states that certificates name: each names the state before its record. A
// record without a step leaves the state as it is.
func (h *history) certifyStates() {
	for _, r := range h.records {
		if _, known := h.records[r.prev]; known {
			h.hold(r.prev, r.before, 0)
		}
		if r.kind == "members" {
			h.hold(r.hash, r.before, 0)
		}
	}
}

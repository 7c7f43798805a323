package chaos

import (
	"cmp"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

// record is a record of the run, and what came of it.
type record struct {
	// of the log that first said that it is certified; without kind if none did
	eventlog.Line
	members []string // that it lists; nil: as the record before it
	// roots of the state after it, with the peers that held it; peer 0 stands for certificates
	states    map[string][]int
	chain     bool // it is on the chain that ends at the tip
	abandoned bool // it is on a branch that was given up when two chains met
}

func (r *record) String() string { return r.Record[:min(8, len(r.Record))] }

func (r *record) certified() bool { return r.Kind != "" }

// rename is a peer that came back under another ID.
type rename struct {
	peer int
	at   time.Time
}

// history is what the event logs of all peers say together.
type history struct {
	records  map[string]*record // by hash
	order    []*record          // those that are certified, by height
	tip      *record
	gaps     findings        // slots that a peer skipped, or lost at a restart
	peers    map[string]int  // by all IDs that they ever had
	retired  map[string]bool // IDs of peers that came back under another one
	renamed  []rename
	restarts int      // of peers with their data
	moved    findings // restarts after which a peer did not listen where it had
}

// reader follows one peer's log through its lives.
type reader struct {
	*history
	peer    int
	id      string
	addrs   []string           // where it listened in its last life
	chain   map[uint64]*record // at each height, as far as the log says
	applied uint64             // newest slot
	// height of the end of the chain that it switches to; 0: it does not switch
	turned uint64
	loose  bool // the next applied slot need not follow the last one
	reborn bool // the next applied slot is the first of a life
}

// readHistory takes the events of each peer, in order. The chain ends where the peers end for which
// finished is true.
func readHistory(logs [][]eventlog.Line, finished []bool) *history {
	h := &history{records: map[string]*record{}, tip: &record{}, peers: map[string]int{}, retired: map[string]bool{}}
	for i, lines := range logs {
		r := reader{history: h, peer: i + 1, chain: map[uint64]*record{}, loose: true}
		for _, l := range lines {
			r.read(l)
		}
		for height, at := range r.chain {
			if finished[i] && height > h.tip.Height {
				h.tip = at
			}
		}
	}
	for at := h.tip; at.certified(); at = h.record(at.Prev) {
		at.chain = true
	}
	slices.SortFunc(h.order, func(a, b *record) int { return cmp.Compare(a.Height, b.Height) })
	h.spreadAbandoned()
	h.certifyStates()
	return h
}

func (r *reader) read(l eventlog.Line) {
	switch l.Event {
	case "peer.started":
		r.begin(l)
	case "record.certified":
		r.addRecord(l)
	case "members.changed":
		if now := r.chain[l.Height]; now != nil {
			now.members = l.Members
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
	addrs := slices.Sorted(slices.Values(l.Addrs))
	if l.PeerID == r.id {
		if r.restarts++; !slices.Equal(addrs, r.addrs) {
			r.moved.add("peer %d listened on %v, and after a restart on %v", r.peer, r.addrs, addrs)
		}
	} else {
		if r.id != "" {
			r.retired[r.id] = true
			r.renamed = append(r.renamed, rename{r.peer, l.Time})
		}
		r.id, r.applied, r.loose, r.chain = l.PeerID, 0, true, map[uint64]*record{}
		r.peers[r.id] = r.peer
	}
	r.addrs, r.reborn = addrs, true
}

// record is the one with a hash, of which there may be no more than that yet.
func (h *history) record(hash string) *record {
	if h.records[hash] == nil {
		h.records[hash] = &record{states: map[string][]int{}}
	}
	return h.records[hash]
}

// addRecord adds a record that is certified to the peer's chain. Just after a chain switch it may
// replace a record that was given up.
func (r *reader) addRecord(l eventlog.Line) {
	now := r.record(l.Record)
	if !now.certified() {
		r.order = append(r.order, now)
		now.Line = l
	} else if l.Time.Before(now.Time) {
		now.Line = l
	}
	if old := r.chain[l.Height]; old != nil && old != now && l.Height <= r.turned {
		old.abandoned = true
	}
	if l.Height >= r.turned {
		r.turned = 0
	}
	r.chain[l.Height] = now
}

// turn begins a switch to a chain that ends at height top. Its records follow, from the first that
// differs.
func (r *reader) turn(top uint64) {
	r.turned, r.loose = top, true
	for height, at := range r.chain {
		if height > top {
			at.abandoned = true
			delete(r.chain, height)
		}
	}
}

// hold records the state that a peer holds after a record. Which one that is at a height changes
// with the chain, so a line that comes late names it.
func (r *reader) hold(l eventlog.Line) {
	at := r.chain[l.Height]
	if l.Record != "" {
		at = r.record(l.Record)
	}
	if at != nil {
		at.hold(l.StateRoot, r.peer)
	}
}

func (r *record) hold(root string, peer int) { r.states[root] = append(r.states[root], peer) }

// goesBack is how many slots a peer may do again that was started again. Peers make a checkpoint
// every four slots, and keep the two newest: the last one may be torn. Three more may have been
// left out, on a disk that is slower than the slots.
const goesBack = 8 + 3*4

// follow checks that slots are applied one after the other. A new life starts from a checkpoint,
// which may be older than the last applied slot; or newer by the one slot whose event was lost in a
// kill.
func (r *reader) follow(slot uint64) {
	ok := slot == r.applied+1
	if r.reborn {
		ok = slot <= r.applied+2 && slot+goesBack > r.applied
	}
	if !ok && !r.loose {
		r.gaps.add("peer %d applied slot %d after slot %d", r.peer, slot, r.applied)
	}
	r.applied, r.loose, r.reborn = slot, false, false
}

// spreadAbandoned marks a whole branch as given up if a part of it was: the peers that held the
// rest may be dead.
func (h *history) spreadAbandoned() {
	for _, r := range slices.Backward(h.order) {
		if prev := h.record(r.Prev); r.abandoned && prev.certified() {
			prev.abandoned = true
		}
	}
	for _, r := range h.order {
		r.abandoned = !r.chain && (r.abandoned || h.record(r.Prev).abandoned)
	}
}

// forked is the record that the branch with a record goes back to: the one below it that was not
// given up.
func (h *history) forked(r *record) *record {
	for r.abandoned {
		r = h.record(r.Prev)
	}
	return r
}

// certifyStates adds the states that certificates name: each names the state before its record. A
// record without a step leaves the state as it is.
func (h *history) certifyStates() {
	for _, r := range h.order {
		if prev := h.record(r.Prev); prev.certified() {
			prev.hold(r.CertifiedRoot, 0)
		}
		if r.Kind == "members" {
			r.hold(r.CertifiedRoot, 0)
		}
	}
}

package hostile

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/node/edge"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// Command is that of a hostile peer's process: it has the name of an attack and a folder, and the
// flags of join.
const Command = "hostile-join"

// Files of the folder that hostile peers share with those who judge them.
const (
	beginFile = "begin"  // once it is there, the attack begins
	deedFiles = "deeds-" // "deeds-PEER": a line for each thing that a peer did
)

// actEvery is the time between two acts that no message brings about.
const actEvery = 50 * time.Millisecond

// Peer is a hostile peer.
type Peer struct {
	Kind
	Folder string // that it shares with those who judge it
	// Others are what honest peers have offered to a slot; nil: the peer does not know
	Others func(slotNumber uint64) [][]float32
}

// listener is shown a message, and the peer that it goes to or comes from; none: it is gossiped.
// The message goes no further if it returns false.
type listener func(peer slot.PeerID, m wire.Message) bool

// liar is a hostile peer at work. Its kind sets hooks, and the functions below, which are called
// once the attack has begun, and one at a time.
type liar struct {
	Peer
	*edge.Hooks
	says  listener // of each message on its way out
	hears listener // of each message that comes in
	acts  func()   // every actEvery

	self   slot.PeerID
	run    slot.Root
	rules  chain.Rules
	signer wire.Signer
	verify slot.Verifier
	out    membership.Transport // the honest one
	driver *membership.Driver

	mu struct {
		sync.Mutex
		begun bool // whether the attack has begun
		deeds string
	}
}

// Begin has hostile peers that share a folder attack.
func Begin(folder string) error { return os.WriteFile(filepath.Join(folder, beginFile), nil, 0o644) }

// Turn has hooks make the hostile peer, until ctx ends.
func (p Peer) Turn(ctx context.Context, h *edge.Hooks) {
	l := &liar{Peer: p, Hooks: h, acts: func() {}}
	h.Ledger = l.wrap
	h.Deliver = func(next func(slot.PeerID, []byte)) func(slot.PeerID, []byte) {
		return func(from slot.PeerID, b []byte) {
			if l.lets(l.hears, from, b) {
				next(from, b)
			}
		}
	}
	opened := h.Opened
	h.Opened = func(in edge.Inside) {
		if opened != nil {
			opened(in)
		}
		l.mu.Lock()
		l.driver = in.Ledger
		l.mu.Unlock()
		go l.live(ctx)
	}
	p.makes(l)
}

// wrap puts the liar between the ledger and the network.
func (l *liar) wrap(cfg *membership.DriverConfig) {
	l.self, l.signer, l.verify, l.out = cfg.Signer.ID(), cfg.Signer, cfg.Verify, cfg.Transport
	l.rules, l.run = cfg.Rules, cfg.Rules.Run
	cfg.Transport = mouth{cfg.Transport, l}
}

// mouth is the transport that the ledger is given.
type mouth struct {
	membership.Transport
	l *liar
}

func (m mouth) Send(to slot.PeerID, b []byte) {
	if m.l.lets(m.l.says, to, b) {
		m.Transport.Send(to, b)
	}
}

func (m mouth) Publish(b []byte) {
	if m.l.lets(m.l.says, "", b) {
		m.Transport.Publish(b)
	}
}

func (l *liar) lets(by listener, peer slot.PeerID, b []byte) (on bool) {
	on = true
	l.attacking(func() {
		if by != nil {
			m, err := wire.Open(b, l.run, l.verify)
			on = err != nil || by(peer, m)
		}
	})
	return on
}

// attacking does something once the attack has begun.
func (l *liar) attacking(do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.begun {
		do()
	}
}

// live begins the attack, and acts from then on.
func (l *liar) live(ctx context.Context) {
	every := time.NewTicker(actEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			l.begin()
			l.attacking(l.acts)
		}
	}
}

// begin begins the attack when it may, and this peer has the vote that it may need.
func (l *liar) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := os.Stat(filepath.Join(l.Folder, beginFile))
	l.mu.begun = l.mu.begun || err == nil && (!l.Votes || slices.ContainsFunc(l.driver.View().Tip.Electors(), l.is))
}

func (l *liar) is(m slot.Member) bool { return m.Peer == l.self }

// did notes a thing that this peer did, once.
func (l *liar) did(format string, args ...any) {
	deed := fmt.Sprintf(format+"\n", args...)
	if !strings.Contains(l.mu.deeds, deed) {
		l.mu.deeds += deed
		// without the folder nobody judges any more
		_ = os.WriteFile(filepath.Join(l.Folder, deedFiles+l.self.String()), []byte(l.mu.deeds), 0o644)
	}
}

// Deeds are lines that say what a hostile peer did.
func Deeds(folder, peer string) string {
	b, _ := os.ReadFile(filepath.Join(folder, deedFiles+peer)) // without it, nothing
	return string(b)
}

// FirstDeed is the slot in which a hostile peer lied first; 0: it has lied in none.
func FirstDeed(folder, peer string) (first uint64) {
	for deed := range strings.Lines(Deeds(folder, peer)) {
		var n uint64
		if _, err := fmt.Sscanf(deed, "slot %d:", &n); err == nil && (first == 0 || n < first) {
			first = n
		}
	}
	return first
}

// say signs a body and sends it to others; to "": to all, as gossip.
func (l *liar) say(body wire.Body, to ...slot.PeerID) {
	b, err := wire.Seal(l.signer, l.run, l.driver.Incarnation(), body)
	for _, p := range to {
		switch {
		case err != nil || p == l.self:
		case p == "":
			l.out.Publish(b)
		default:
			l.out.Send(p, b)
		}
	}
}

// leads says whether this peer is the leader that members follow now.
func (l *liar) leads(v membership.View) bool { return v.IsMember && v.Leader == l.self }

// now is the slot that is open.
func (l *liar) now() uint64 { return l.driver.View().Tip.Slot + 1 }

// others are all members but this one.
func (l *liar) others() []slot.PeerID {
	return slices.DeleteFunc(l.driver.View().Peers(), func(p slot.PeerID) bool { return p == l.self })
}

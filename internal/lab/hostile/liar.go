package hostile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/node/testhooks"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// Files of the folder that hostile peers share with those who judge them.
const (
	beginFile = "begin" // once it is there, the attack begins
	deedFiles = "deeds" // "deeds-PEER": a line for each thing that a peer did

	friendFiles = "friend" // "friend-PEER": a hostile peer that has started
)

// actEvery is the time between two acts that no message brings about.
const actEvery = 50 * time.Millisecond

// habit is what a kind does differently. Its functions are called one at a time, and, but for
// prepares and reduces, only once the attack has begun.
type habit struct {
	// prepares changes what the ledger works with.
	prepares func(cfg *membership.DriverConfig)
	// says is shown each message on its way out; to is empty for one that is gossiped. The message
	// does not leave if it returns false.
	says func(to slot.PeerID, m wire.Message) bool
	// hears is shown each message that comes in. The ledger does not get it if it returns false.
	hears func(m wire.Message) bool
	// reduces is given the values of each frame that this peer reduces, and may change them.
	reduces func(slotNumber uint64, frame int, values []float32)
	// offers is given each own contribution before it is offered, and may change it.
	offers func(slotNumber uint64, c *allreduce.Contribution)
	// figures is given what this peer publishes of each frame that it reduces, and may change it.
	figures func(slotNumber uint64, row slot.FigureRow)
	// claims returns the weight that an own contribution claims, given the true one.
	claims func(slotNumber, weight uint64) uint64
	// audits may replace a stream of an audit, which this peer has opened or accepted.
	audits func(opened bool, s canonical.Stream) canonical.Stream
	// exchanges may replace a stream of the all-reduce, which this peer has opened or accepted.
	exchanges func(opened bool, s canonical.Stream) canonical.Stream
	// passes says whether this peer gives HAVE for an outcome of a slot without checking it.
	passes func(slotNumber uint64) bool
	// acts is called every actEvery.
	acts func()
}

// Peer says what a hostile peer does.
type Peer struct {
	Kind   string
	Folder string // that it shares with those who judge it
	// Others are what honest peers have offered to a slot; nil: the peer does not know
	Others func(slotNumber uint64) [][]float32
}

// liar is a hostile peer.
type liar struct {
	Peer
	seat  Seat
	habit habit

	self    slot.PeerID
	run     slot.Root
	rules   chain.Rules
	signer  wire.Signer
	verify  slot.Verifier
	out     membership.Transport // the honest one
	deliver func(from slot.PeerID, b []byte)
	driver  *membership.Driver

	begun atomic.Bool // whether the attack has begun
	mu    struct {    // held while a function of the habit runs
		sync.Mutex
		deeds map[string]bool
	}
}

// With returns a context with which p2pdiloco.Join makes the hostile peer.
func (p Peer) With(ctx context.Context) (context.Context, error) {
	h := &testhooks.Hooks{}
	if err := p.Turn(ctx, h); err != nil {
		return nil, err
	}
	return testhooks.With(ctx, h), nil
}

// Begin has hostile peers that share a folder attack.
func Begin(folder string) error { return os.WriteFile(filepath.Join(folder, beginFile), nil, 0o644) }

// Turn has hooks make the hostile peer, until ctx ends.
func (p Peer) Turn(ctx context.Context, h *testhooks.Hooks) error {
	kind, known := Find(p.Kind)
	if !known {
		return fmt.Errorf("no hostile peer is of kind %q", p.Kind)
	}
	l := &liar{Peer: p, seat: kind.Seat}
	l.mu.deeds = map[string]bool{}
	l.habit = kind.makes(l)
	h.Ledger = l.wrap
	h.Deliver = func(next func(slot.PeerID, []byte)) func(slot.PeerID, []byte) {
		l.deliver = next
		return l.hear
	}
	l.turnReduction(h)
	opened := h.Opened
	h.Opened = func(in testhooks.Inside) {
		if opened != nil {
			opened(in)
		}
		l.mu.Lock()
		l.driver = in.Ledger
		l.mu.Unlock()
		go l.live(ctx)
	}
	return nil
}

// wrap puts the liar between the ledger and the network.
func (l *liar) wrap(cfg *membership.DriverConfig) {
	l.self, l.signer, l.verify, l.out = cfg.Signer.ID(), cfg.Signer, cfg.Verify, cfg.Transport
	l.rules, l.run = cfg.Rules, cfg.Rules.Run
	name := filepath.Join(l.Folder, friendFiles+"-"+l.self.String())
	_ = os.WriteFile(name, nil, 0o644) // without the folder nobody looks
	cfg.Transport = mouth{cfg.Transport, l}
	if l.habit.prepares != nil {
		l.habit.prepares(cfg)
	}
}

// mouth is the transport that the ledger is given.
type mouth struct {
	membership.Transport
	l *liar
}

func (m mouth) Send(to slot.PeerID, b []byte) {
	if m.l.passes(to, b) {
		m.Transport.Send(to, b)
	}
}

func (m mouth) Publish(b []byte) {
	if m.l.passes("", b) {
		m.Transport.Publish(b)
	}
}

func (l *liar) passes(to slot.PeerID, b []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.begun.Load() || l.habit.says == nil {
		return true
	}
	m, err := wire.Open(b, l.run, l.verify)
	return err != nil || l.habit.says(to, m)
}

func (l *liar) hear(from slot.PeerID, b []byte) {
	if l.lets(b) {
		l.deliver(from, b)
	}
}

func (l *liar) lets(b []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.begun.Load() || l.habit.hears == nil {
		return true
	}
	m, err := wire.Open(b, l.run, l.verify)
	return err != nil || l.habit.hears(m)
}

// live waits for the attack to begin, and acts from then on.
func (l *liar) live(ctx context.Context) {
	every := time.NewTicker(actEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			l.act()
		}
	}
}

func (l *liar) act() {
	if !l.begun.Load() {
		_, err := os.Stat(filepath.Join(l.Folder, beginFile))
		if err != nil || !l.seat.held(l.self, l.driver.View()) {
			return
		}
		l.begun.Store(true)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.habit.acts != nil {
		l.habit.acts()
	}
}

// did notes a thing that this peer did, once.
func (l *liar) did(format string, args ...any) {
	deed := fmt.Sprintf(format, args...)
	if l.mu.deeds[deed] {
		return
	}
	l.mu.deeds[deed] = true
	name := filepath.Join(l.Folder, deedFiles+"-"+l.self.String())
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return // the folder is gone: nobody judges any more
	}
	_, err = fmt.Fprintln(f, deed)
	_ = errors.Join(err, f.Close())
}

// Deeds are lines that say what a hostile peer did.
func Deeds(folder, peer string) string {
	b, _ := os.ReadFile(filepath.Join(folder, deedFiles+"-"+peer)) // without it, nothing
	return string(b)
}

// friends are the IDs of the hostile peers that have started, this one included.
func (l *liar) friends() (ids []string) {
	// the pattern is well formed
	files, _ := filepath.Glob(filepath.Join(l.Folder, friendFiles+"-*"))
	for _, f := range files {
		ids = append(ids, strings.TrimPrefix(filepath.Base(f), friendFiles+"-"))
	}
	return ids
}

// say signs a body and sends it.
func (l *liar) say(body wire.Body, to ...slot.PeerID) {
	b, err := wire.Seal(l.signer, l.run, l.driver.Incarnation(), body)
	if err != nil {
		return
	}
	for _, p := range to {
		if p != l.self {
			l.out.Send(p, b)
		}
	}
}

// pass signs a body and sends it as the message that it takes the place of: to a peer, or to all.
func (l *liar) pass(to slot.PeerID, body wire.Body) {
	if to == "" {
		l.gossip(body)
	} else {
		l.say(body, to)
	}
}

// gossip signs a body and announces it.
func (l *liar) gossip(body wire.Body) {
	if b, err := wire.Seal(l.signer, l.run, l.driver.Incarnation(), body); err == nil {
		l.out.Publish(b)
	}
}

// leads says whether this peer is the leader that members follow now.
func (l *liar) leads(v membership.View) bool { return v.IsMember && v.Leader == l.self }

// sign is the signature alone of a body.
func (l *liar) sign(body wire.Body) []byte {
	m, _, err := wire.SealMessage(l.signer, l.run, l.driver.Incarnation(), body)
	if err != nil {
		return nil
	}
	return m.Sig
}

package admission

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/node/admission/proof"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// Config says what a Guard works with. All fields are required unless a comment says otherwise.
type Config struct {
	Self        slot.PeerID
	Run         string // the run's name
	Network     *p2p.Network
	Files       Files
	Credentials *Credentials
	Asking      time.Duration // for how long other members are asked after a first refusal
	// Refused, if it is not nil, is told once of each reason for which a member does not let this
	// peer back in. It must not block, nor call the guard.
	Refused func(by slot.PeerID, reason string)
	Now     func() time.Time // the time of day
	Logger  *slog.Logger
}

// Guard decides which peers this peer of a private run admits, and asks other peers to admit this
// one. It is a p2p.Gatekeeper. Its methods may be called from any goroutine.
type Guard struct {
	cfg     Config
	places  *p2p.Places   // where the run's peers meet
	inside  chan struct{} // closed once the secret is known
	refused chan error    // has room for one: this peer will not be let in
	news    chan []byte   // tokens used here, for the others; has room for some

	keys struct { // held, before mu, while secrets are written
		sync.Mutex
		// made here and not proposed yet, not on disk; zero: none
		own proof.Secret
	}
	mu struct {
		sync.Mutex
		proof.Party
		run slot.Root // zero until it is known
		// by the commitment to a secret that is proposed and not in force: the peers that do not
		// get it
		withheld map[slot.Root][]slot.PeerID
		refusals refusals
		// another peer has announced all that this one knows of tokens, since unsaid was last
		// called
		said bool
	}
}

// maxUnsaid bounds the news of tokens that wait to be sent to others.
const maxUnsaid = 256

// NewGuard makes a guard. It does nothing until it is set as the network's gatekeeper.
func NewGuard(cfg Config) (*Guard, error) {
	g := &Guard{
		cfg: cfg, inside: make(chan struct{}), refused: make(chan error, 1), news: make(chan []byte, maxUnsaid),
	}
	used, err := cfg.Files.loadUsed(g.now())
	if err != nil {
		return nil, err
	}
	c := cfg.Credentials
	g.mu.Party = proof.Party{Run: cfg.Run, Self: cfg.Self, Ring: c.ring, Used: used}
	if c.ticket != nil {
		g.mu.Token, g.mu.Until = c.ticket.Token, uint64(c.ticket.Expires.Unix())
	}
	g.mu.withheld, g.mu.refusals = make(map[slot.Root][]slot.PeerID), newRefusals()
	if !c.ring.IsZero() {
		close(g.inside)
	}
	g.places = p2p.NewPlaces(g.rendezvous()...)
	return g, nil
}

func (g *Guard) now() uint64 { return uint64(max(g.cfg.Now().Unix(), 0)) }

// Places are the names under which the run's peers announce themselves. Only its peers and its
// tickets know them.
func (g *Guard) Places() *p2p.Places { return g.places }

// SetRun sets the run's ID, once that is known.
func (g *Guard) SetRun(run slot.Root) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.run = run
}

// Ask implements p2p.Gatekeeper.
func (g *Guard) Ask(to slot.PeerID) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.Ask(to, g.mu.refusals.tries[to]).Append(nil)
}

// Answer implements p2p.Gatekeeper.
func (g *Guard) Answer(from slot.PeerID, b []byte) (answer []byte, admitted bool) {
	ask, err := proof.ParseAsk(b)
	if err != nil {
		return proof.Answer{Refusal: "not understood"}.Append(nil), false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	a := g.mu.Answer(g.now(), from, ask)
	if admitted = a.Refusal == ""; admitted && ask.Token {
		g.cfg.Logger.Info("a ticket admits a peer", "peer", from, "token", hex.EncodeToString(ask.ID[:4]))
		g.saveUsed()
		select {
		case g.news <- proof.Told{Used: []proof.Used{{
			ID: ask.ID, Expires: ask.Expires,
			Peers: []slot.PeerID{from},
		}}}.Append(nil):
		default: // a peer that joins gets the reason in the answer to its own Ask
		}
	}
	return a.Append(nil), admitted
}

// Judge implements p2p.Gatekeeper.
func (g *Guard) Judge(from slot.PeerID, asked, b []byte) error {
	ask, err := proof.ParseAsk(asked)
	if err != nil {
		return err
	}
	answer, err := proof.ParseAnswer(b)
	if err != nil {
		return err
	}
	if ask.Token { // it may bring a secret
		g.keys.Lock()
		defer g.keys.Unlock()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	before, had := g.mu.Ring, !g.mu.Ring.IsZero()
	err = g.mu.Judge(g.now(), from, ask, answer)
	var refused *proof.RefusedError
	switch {
	case err == nil && !had:
		return g.enter(before)
	case err == nil && g.mu.Ring.Current() != before.Current():
		return g.renew(before)
	case err == nil:
		delete(g.mu.refusals.tries, from)
		g.mu.refusals.clear()
	case errors.As(err, &refused) && refused.Proven && !had:
		g.refusedBy(from, refused.Reason)
	case errors.As(err, &refused):
		g.turnedAway(from, refused)
	}
	return err
}

// enter keeps the secret that a member has just given. mu is held.
func (g *Guard) enter(before proof.Ring) error {
	if err := g.cfg.Files.createSecret(g.mu.Ring.Current()); err != nil {
		g.mu.Ring = before // it would be lost with the process
		g.end(err)
		return err
	}
	close(g.inside)
	return nil
}

// renew keeps the newer secret that a member has just given for a ticket: it is in use once it is
// on disk. keys and mu are held.
func (g *Guard) renew(before proof.Ring) error {
	ring := g.mu.Ring
	g.mu.Ring = before
	g.mu.Unlock()
	err := g.write(ring)
	places := g.rendezvous()
	g.mu.Lock()
	if err != nil {
		return err
	}
	clear(g.mu.refusals.tries)
	g.mu.refusals.clear()
	g.places.Set(places...)
	g.cfg.Logger.Info("the ticket has brought the admission secret that is in force now")
	return nil
}

// IsIn says whether this peer is admitted to the run.
func (g *Guard) IsIn() bool {
	select {
	case <-g.inside:
		return true
	default:
		return false
	}
}

// Await waits until this peer is admitted.
func (g *Guard) Await(ctx context.Context) error {
	select {
	case <-g.inside:
		return nil
	case err := <-g.refused:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// rendezvous returns the names under which the run's peers announce themselves. Only its peers and
// its tickets know them. A peer that was away while the secret changed searches under the name of
// the one before.
func (g *Guard) rendezvous() (places []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := func(r [ticket.RendezvousSize]byte) { places = append(places, "private/"+hex.EncodeToString(r[:])) }
	if g.mu.Spare() {
		name(g.mu.Token.Rendezvous)
	}
	line := g.mu.Ring.Line()
	for _, s := range line[:min(len(line), 2)] {
		name(s.Rendezvous(g.mu.Run))
	}
	return places
}

// NewToken makes a token, which admits newcomers that have its ticket.
func (g *Guard) NewToken(expires time.Time, uses int) (*ticket.Token, error) {
	t := &ticket.Token{Uses: uint32(max(uses, 1))}
	if _, err := rand.Read(t.ID[:]); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	t.Tag = g.mu.Ring.Current().Tag(g.mu.Run, t.ID, uint64(expires.Unix()), t.Uses)
	t.Rendezvous = g.mu.Ring.Current().Rendezvous(g.mu.Run)
	return t, nil
}

package p2pdiloco

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/admission"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// maxUnsaid bounds what waits to be told to the others.
const maxUnsaid = 256

// doorman is whom this peer of a private run lets in, and how it asks to be let in itself: a p2p.Gatekeeper.
type doorman struct {
	dir     dataDir
	log     *slog.Logger
	inside  chan struct{}    // closed once the secret is known
	refused chan error       // has room for one: this peer will not be let in
	news    chan []byte      // tokens used here, for the others; has room for some
	made    bool             // the secret is new: this peer is the first of the run
	asking  time.Duration    // others, after the first refusal
	places  *p2p.Places      // where the run's peers meet
	gate    *p2p.Network     // nil before there is one
	keys    sync.Mutex       // held, before mu, while secrets are written
	own     admission.Secret // made here and not proposed yet, not on disk; zero: none. Of who holds keys
	mu      struct {
		sync.Mutex
		admission.Doorkeeper
		run      Root              // zero until it is known
		withheld map[Root][]PeerID // by commitment to a secret that was proposed and is not in force: whom it is not given to
		tries    map[PeerID]int    // how often a peer proved nothing when it was asked
		told     map[telling]bool  // what refusals were logged
		said     bool              // since unsaid was called another peer has said all that is known here of tokens
		refusals map[PeerID]string // what members have said against letting this peer in
		since    time.Time         // the first of them
	}
}

func newDoorman(dir dataDir, cfg Config, ring admission.Ring, token *ticket.Token, made bool, log *slog.Logger) (*doorman, error) {
	d := &doorman{dir: dir, log: log, made: made, asking: refusalsWait * presets[cfg.preset()].discovery, inside: make(chan struct{}), refused: make(chan error, 1), news: make(chan []byte, maxUnsaid)}
	d.mu.Doorkeeper = admission.Doorkeeper{Run: cfg.Spec.Name, Ring: ring, Token: token, Used: admission.NewRegister(), Listed: cfg.listed()}
	d.mu.withheld, d.mu.tries, d.mu.told = make(map[Root][]PeerID), make(map[PeerID]int), make(map[telling]bool)
	if !ring.IsZero() {
		close(d.inside)
	}
	if token != nil {
		d.mu.Until = uint64(cfg.ticket.Expires.Unix())
	}
	d.places = p2p.NewPlaces(d.rendezvous()...)
	b, err := disk.Read(dir.fs, dir.path(usedFile), admission.MaxAnswer)
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	used, err := admission.ParseTold(b)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w: remove it; tickets that were used may then be used again", dir.path(usedFile), err)
	}
	d.mu.Used.Merge(now(), used)
	return d, nil
}

func now() uint64 { return uint64(max(time.Now().Unix(), 0)) }

// Ask implements p2p.Gatekeeper.
func (d *doorman) Ask(to PeerID) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.Ask(to, d.mu.tries[to]).Append(nil)
}

// Answer implements p2p.Gatekeeper.
func (d *doorman) Answer(from PeerID, b []byte) (answer []byte, admitted bool) {
	ask, err := admission.ParseAsk(b)
	if err != nil {
		return admission.Answer{Refusal: "not understood"}.Append(nil), false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.mu.Answer(now(), from, ask)
	if admitted = a.Refusal == ""; admitted && ask.Token {
		d.log.Info("a ticket admits a peer", "peer", from, "token", hex.EncodeToString(ask.ID[:4]))
		d.saveUsed()
		select {
		case d.news <- admission.Told{Used: []admission.Used{{ID: ask.ID, Expires: ask.Expires, Peers: []PeerID{from}}}}.Append(nil):
		default: // who joins hears of it in the answer to its own asking
		}
	}
	return a.Append(nil), admitted
}

// Judge implements p2p.Gatekeeper.
func (d *doorman) Judge(from PeerID, asked, b []byte) error {
	ask, err := admission.ParseAsk(asked)
	if err != nil {
		return err
	}
	answer, err := admission.ParseAnswer(b)
	if err != nil {
		return err
	}
	if ask.Token { // it may bring a secret
		d.keys.Lock()
		defer d.keys.Unlock()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	before, had := d.mu.Ring, !d.mu.Ring.IsZero()
	err = d.mu.Judge(now(), from, ask, answer)
	var refused *admission.RefusedError
	switch {
	case err == nil && !had:
		return d.enter(before)
	case err == nil && d.mu.Ring.Current() != before.Current():
		return d.renew(before)
	case err == nil:
		delete(d.mu.tries, from)
		clear(d.mu.refusals)
	case errors.As(err, &refused) && refused.Proven && !had:
		d.refusedBy(from, refused.Reason)
	case errors.As(err, &refused):
		d.turnedAway(from, refused)
	}
	return err
}

// enter keeps the secret that a member has just given. mu is held.
func (d *doorman) enter(before admission.Ring) error {
	if err := d.dir.saveSecret(d.mu.Ring.Current()); err != nil {
		d.mu.Ring = before // it would be lost with the process
		d.end(err)
		return err
	}
	close(d.inside)
	return nil
}

// renew keeps the newer secret that a member has just given for a ticket: it is in use once it is on disk. keys and mu are held.
func (d *doorman) renew(before admission.Ring) error {
	ring := d.mu.Ring
	d.mu.Ring = before
	d.mu.Unlock()
	err := d.write(ring)
	places := d.rendezvous()
	d.mu.Lock()
	if err != nil {
		return err
	}
	clear(d.mu.tries)
	clear(d.mu.refusals)
	d.places.Set(places...)
	d.log.Info("the ticket has brought the admission secret that is in force now")
	return nil
}

// isIn says whether this peer belongs to the run.
func (d *doorman) isIn() bool {
	select {
	case <-d.inside:
		return true
	default:
		return false
	}
}

// await waits until this peer is let in.
func (d *doorman) await(ctx context.Context) error {
	select {
	case <-d.inside:
		return nil
	case err := <-d.refused:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// learn takes in what another peer has said of tokens.
func (d *doorman) learn(b []byte) {
	used, err := admission.ParseTold(b)
	if err != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.Used.Merge(now(), used) {
		d.saveUsed()
	}
	d.mu.said = d.mu.said || d.mu.Used.Within(used)
}

// unsaid is what the others should be told of tokens, nil if another peer has just done so.
func (d *doorman) unsaid() []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	said := d.mu.said
	d.mu.said = false
	told := d.mu.Used.Told()
	if said || len(told.Used) == 0 {
		return nil
	}
	return told.Append(nil)
}

// saveUsed writes the register; mu is held, which keeps the order. A disk that fails lets tickets be used more often, and is not the end.
func (d *doorman) saveUsed() {
	if err := disk.Replace(d.dir.fs, d.dir.path(usedFile), d.mu.Used.Told().Append(nil)); err != nil && !errors.Is(err, os.ErrClosed) {
		d.log.Warn("who used a ticket could not be noted", "err", err)
	}
}

// isSelf says whether a peer is this one.
func (d *doorman) isSelf(p PeerID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return p == d.mu.Self
}

// rendezvous is what the run's peers announce themselves under: what its peers and its tickets alone know. Who slept while the secret was changed looks for the
// others under the one before.
func (d *doorman) rendezvous() (places []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := func(r [ticket.RendezvousSize]byte) { places = append(places, "private/"+hex.EncodeToString(r[:])) }
	if d.mu.Spare() {
		name(d.mu.Token.Rendezvous)
	}
	line := d.mu.Ring.Line()
	for _, s := range line[:min(len(line), 2)] {
		name(s.Rendezvous(d.mu.Run))
	}
	return places
}

// newToken makes what admits newcomers with a ticket.
func (d *doorman) newToken(expires time.Time, uses int) (*ticket.Token, error) {
	t := &ticket.Token{Uses: uint32(max(uses, 1))}
	if _, err := rand.Read(t.ID[:]); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	t.Tag = d.mu.Ring.Current().Tag(d.mu.Run, t.ID, uint64(expires.Unix()), t.Uses)
	t.Rendezvous = d.mu.Ring.Current().Rendezvous(d.mu.Run)
	return t, nil
}

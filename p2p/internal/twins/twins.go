package twins

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/time/rate"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// AtOnce is how many streams of one witness should be answered at once: one for each of its
// connections here.
const AtOnce = 2 * maxConns

const (
	// signatures a second, and in a burst. An honest witness asks for one in some seconds, and only
	// where there are two processes.
	strangerSigns, strangerBurst = 8, 32
	memberSigns, memberBurst     = 64, 256
	// how long a process that has a proof waits for the witness to give the other one its proof
	endPatience = 5 * time.Second
)

// Errors of Answer.
var (
	errNoProof = errors.New("no process that runs now has signed this")
	errTooMany = errors.New("strangers ask for too many signatures")
)

// Env is what Twins needs of its Network.
type Env struct {
	peers.Env
	Key    crypto.PrivKey
	Admits func(peer.ID) bool // by the gate
}

// Twins is one process's part in noticing processes with equal keys: it answers witnesses, and is
// one.
type Twins struct {
	env       Env
	nonce     number
	strangers *rate.Limiter
	members   *rate.Limiter
	once      sync.Once
	found     chan struct{}
	witness   witness
}

// New makes the part of a process that starts now.
func New(env Env) *Twins {
	t := &Twins{
		env: env, nonce: draw(), found: make(chan struct{}),
		strangers: rate.NewLimiter(strangerSigns, strangerBurst),
		members:   rate.NewLimiter(memberSigns, memberBurst),
	}
	t.witness.mu.records = make(map[peer.ID]*record)
	return t
}

// Found is closed when another process has proven that it runs with this one's key.
func (t *Twins) Found() <-chan struct{} { return t.found }

// Answer serves a stream of Protocol, which the caller closes.
func (t *Twins) Answer(from slot.PeerID, s wire.Stream) {
	_ = s.SetDeadline(time.Now().Add(streamTime))
	proven, err := t.answer(peer.ID(from), s)
	if err != nil {
		t.env.Log.Debug("a witness of processes with one key got no answer", "peer", from, "err", err)
		_ = s.Reset()
	}
	if proven {
		t.once.Do(func() {
			t.env.Log.Error("another process runs with a copy of this peer's identity: it has proven that just now",
				"peer", from.String())
			close(t.found)
		})
	}
}

// answer says whether there is a proof.
func (t *Twins) answer(from peer.ID, s wire.Stream) (proven bool, err error) {
	own := hail{t.nonce, draw()}
	if err := writeHail(s, own); err != nil {
		return false, err
	}
	var theirs number
	if err := readAll(s, theirs[:]); err != nil {
		return false, ended(err)
	}
	if err := t.sign(from, theirs, s); err != nil {
		return false, err
	}
	p, err := readProof(s)
	switch {
	case err != nil:
		return false, ended(err)
	case p.nonce == t.nonce || !p.holds(t.env.Key.GetPublic(), own.challenge):
		return false, errNoProof
	}
	if _, err := s.Write([]byte{1}); err == nil {
		_ = s.SetReadDeadline(time.Now().Add(endPatience))
		_ = readAll(s, make([]byte, 1)) // the witness ends the stream once the other one knows, too
	}
	return true, nil
}

// sign signs a challenge for a witness.
func (t *Twins) sign(from peer.ID, challenge number, s wire.Stream) error {
	limit := t.strangers
	if t.env.Members.Has(from) {
		limit = t.members
	}
	if !limit.Allow() {
		return errTooMany
	}
	sig, err := t.env.Key.Sign(signed(challenge, t.nonce))
	if err != nil {
		return fmt.Errorf("signing a challenge: %w", err)
	}
	return writeAll(s, sig)
}

// ended is nil where a witness has nothing more to say.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

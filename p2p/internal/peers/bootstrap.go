package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// MaxBootstrap is how many bootstrap addresses are allowed.
const MaxBootstrap = 64

const answerPoll = 50 * time.Millisecond // between looks whether a node has said something

// BootstrapState says how looking for the bootstrap addresses goes.
type BootstrapState struct {
	Given    []string // addresses given, without this peer's own
	Answered bool     // one of them has answered since the start
	Attempts int      // dials of a bootstrap node that have ended
	LastErr  error    // why the last ones failed, nil if they did not
}

// ErrNoBootstrap is wrapped by the error that says no bootstrap address has answered.
var ErrNoBootstrap = errors.New("no bootstrap address answers yet")

// Err is nil once a bootstrap address answered, or if none was given. Otherwise it names the
// addresses and the last failure.
func (b BootstrapState) Err() error {
	if b.Answered || len(b.Given) == 0 {
		return nil
	}
	why := "still trying"
	if b.LastErr != nil {
		why = strings.ReplaceAll(b.LastErr.Error(), "\n", "; ")
	}
	return fmt.Errorf("%w: %s (%s)", ErrNoBootstrap, strings.Join(b.Given, ", "), why)
}

// AddBootstrap takes addresses of bootstrap nodes that it does not have, all or none. A node is
// dialled at all of its addresses at once, in their order.
func (d *Dialer) AddBootstrap(addrs []string) error {
	infos := make([]*peer.AddrInfo, len(addrs))
	for i, s := range addrs {
		var err error
		if infos[i], err = peer.AddrInfoFromString(s); err != nil {
			return fmt.Errorf("bootstrap address %q: %w", s, err)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.wake.Raise()
	for i, s := range addrs {
		id := infos[i].ID
		if id == d.env.Host.ID() || slices.Contains(d.mu.boot.Given, s) {
			continue
		}
		if len(d.mu.boot.Given) >= MaxBootstrap {
			return fmt.Errorf("%d bootstrap addresses: at most %d are allowed", len(d.mu.boot.Given)+1, MaxBootstrap)
		}
		d.mu.boot.Given = append(d.mu.boot.Given, s)
		t := d.target(id)
		if !t.node {
			t.node, t.Addrs = true, nil
			d.mu.nodes = append(d.mu.nodes, id)
		}
		if d.cfg.Ranks != nil {
			d.cfg.Ranks.PreferQUIC(infos[i].Addrs...)
		}
		t.Addrs, t.once = slices.Concat(t.Addrs, infos[i].Addrs), true
	}
	return nil
}

// Bootstrap reports how looking for the bootstrap addresses goes.
func (d *Dialer) Bootstrap() BootstrapState {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.mu.boot
	s.Given = slices.Clone(s.Given)
	for _, id := range d.mu.nodes {
		s.LastErr = errors.Join(s.LastErr, d.mu.targets[id].err)
	}
	return s
}

// Nodes are the bootstrap nodes, in the order in which their addresses were given.
func (d *Dialer) Nodes() (nodes []peer.AddrInfo) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range d.mu.nodes {
		nodes = append(nodes, d.mu.targets[id].AddrInfo)
	}
	return nodes
}

// IsNode says whether an address of a peer was given.
func (d *Dialer) IsNode(id peer.ID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.mu.nodes, id)
}

var errNoAnswer = errors.New("it takes the connection and then says nothing: it may refuse this peer, or be another " +
	"program")

// answered says whether a node has spoken to us over a connection on which it knew who we are: with
// TLS 1.3 a dial succeeds before the other side has looked at our certificate, and a run must not
// be founded because somebody refuses to talk. The word that counts is identify, which libp2p asks
// for on each connection: a gate of a private run does not hold it back. It comes within a round
// trip.
func (d *Dialer) answered(ctx context.Context, id peer.ID) error {
	for {
		said, err := d.env.Host.Peerstore().GetProtocols(id)
		if err == nil && len(said) > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(answerPoll):
		}
		if ctx.Err() != nil || !d.env.reached(id) {
			return &Fault{Peer: id, Err: errors.Join(err, errNoAnswer)}
		}
	}
}

// nodeEnded notes how the dial of a bootstrap node ended. mu is held.
func (d *Dialer) nodeEnded(t *target, err error) {
	d.mu.boot.Attempts++
	if t.err = err; err == nil {
		t.failures, d.mu.boot.Answered = 0, true
		return
	}
	level := slog.LevelDebug
	if n := d.mu.boot.Attempts; !d.mu.boot.Answered && n&(n-1) == 0 { // again and again is no news
		level = slog.LevelWarn
	}
	d.env.Log.Log(d.env.Tasks.Context(), level, "no bootstrap address answers", "err", err)
}

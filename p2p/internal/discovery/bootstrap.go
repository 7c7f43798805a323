package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

const (
	bootstrapRetryMin = 500 * time.Millisecond
	bootstrapRetryMax = 15 * time.Second
	bootstrapCheck    = 30 * time.Second // how often a peer with neighbours looks after the rest
	bootstrapTimeout  = 10 * time.Second
	answerPoll        = 50 * time.Millisecond
)

// MaxBootstrap is how many bootstrap addresses are allowed.
const MaxBootstrap = 64

// BootstrapState says how looking for the bootstrap addresses goes.
type BootstrapState struct {
	Given    []string // addresses given, without this peer's own
	Answered bool     // one of them has answered since the start
	Attempts int      // rounds of trying them all
	LastErr  error    // why the last round failed, nil if it did not
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

// bootstrapper connects to the bootstrap addresses, and to remembered peers whenever this peer
// knows nobody. It dials a bootstrap node that was lost again and again: one that comes back has
// forgotten what peers announced, and newcomers ask it first.
type bootstrapper struct {
	env  Env
	cfg  Config
	book *addressBook
	wake peers.Signal // the next round begins at once
	mu   struct {
		sync.Mutex
		BootstrapState
		given    []peer.AddrInfo
		underWay map[string]bool // dials
	}
}

func newBootstrapper(env Env, cfg Config, book *addressBook) *bootstrapper {
	b := &bootstrapper{env: env, cfg: cfg, book: book, wake: peers.NewSignal()}
	b.mu.underWay = make(map[string]bool)
	_ = b.add(cfg.Bootstrap) // Validate has refused what does not parse
	env.OnConnection(func(id peer.ID, connected bool) {
		if !connected && (len(env.Host.Network().Peers()) == 0 || b.isNode(id)) {
			b.wake.Raise()
		}
	})
	return b
}

// add takes addresses that it does not have, all or none.
func (b *bootstrapper) add(addrs []string) error {
	infos := make([]*peer.AddrInfo, len(addrs))
	for i, s := range addrs {
		var err error
		if infos[i], err = peer.AddrInfoFromString(s); err != nil {
			return fmt.Errorf("bootstrap address %q: %w", s, err)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, s := range addrs {
		if infos[i].ID == b.env.Host.ID() || slices.Contains(b.mu.Given, s) {
			continue
		}
		if len(b.mu.Given) >= MaxBootstrap {
			return fmt.Errorf("%d bootstrap addresses: at most %d are allowed", len(b.mu.Given)+1, MaxBootstrap)
		}
		b.mu.Given = append(b.mu.Given, s)
		b.mu.given = withAddrs(b.mu.given, *infos[i])
	}
	return nil
}

// withAddrs adds a node, or addresses to those that it has: it is dialled at all of them at once,
// in their order.
func withAddrs(nodes []peer.AddrInfo, more peer.AddrInfo) []peer.AddrInfo {
	i := slices.IndexFunc(nodes, func(p peer.AddrInfo) bool { return p.ID == more.ID })
	if i < 0 {
		return append(nodes, more)
	}
	nodes[i].Addrs = slices.Concat(nodes[i].Addrs, more.Addrs)
	return nodes
}

// nodes are those whose addresses were given, in their order.
func (b *bootstrapper) nodes() []peer.AddrInfo {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.mu.given)
}

// isNode says whether an address of a peer was given.
func (b *bootstrapper) isNode(id peer.ID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.mu.given, func(p peer.AddrInfo) bool { return p.ID == id })
}

func (b *bootstrapper) state() BootstrapState {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.mu.BootstrapState
	s.Given = slices.Clone(s.Given)
	return s
}

// run has one round after the other. When it is woken the next one begins soon: of the one before
// there may be left dials of peers that are gone, which take seconds to fail, while a bootstrap
// node that has just been lost would answer.
func (b *bootstrapper) run() {
	retry := bootstrapRetryMin
	for b.env.Tasks.Context().Err() == nil {
		began := time.Now()
		select {
		case <-b.round():
		case <-b.wake:
			b.wake.Raise()
		case <-b.env.Tasks.Context().Done():
			return
		}
		wait := bootstrapCheck
		if b.wanting() {
			wait = retry
			retry = min(2*retry, bootstrapRetryMax, max(b.cfg.FindEvery, bootstrapRetryMin))
		} else {
			retry = bootstrapRetryMin
		}
		if b.pause(wait) {
			retry = bootstrapRetryMin
			// a node that takes connections and ends them at once must not be dialled without end
			b.env.Tasks.Sleep(bootstrapRetryMin - time.Since(began))
		}
	}
}

// pause waits, and says whether it was woken.
func (b *bootstrapper) pause(wait time.Duration) (woken bool) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-b.env.Tasks.Context().Done():
	case <-b.wake:
		return true
	case <-timer.C:
	}
	return false
}

// wanting says whether to try again soon: a bootstrap node is not connected, or has not answered,
// or nobody is connected though somebody could be.
func (b *bootstrapper) wanting() bool {
	if b.state().Err() != nil ||
		slices.ContainsFunc(b.nodes(), func(p peer.AddrInfo) bool { return !b.env.Connected(p.ID) }) {
		return true
	}
	known := len(b.nodes()) > 0 || len(b.book.known()) > 0
	return known && len(b.env.Host.Network().Peers()) == 0
}

// round dials every bootstrap node not connected, and, when this peer is alone, the remembered
// ones, all at once; but for those under way. It is over when the bootstrap nodes have answered or
// failed.
func (b *bootstrapper) round() (over <-chan struct{}) {
	if len(b.env.Host.Network().Peers()) == 0 {
		for _, p := range b.book.known() {
			b.begin(p, func(err error) {
				if err != nil {
					b.env.Log.Debug("remembered peer does not answer", "peer", p.ID, "err", err)
				}
			})
		}
	}
	var wg sync.WaitGroup
	given := b.nodes()
	errs := make([]error, len(given))
	for i, p := range given {
		if !b.cfg.Announced {
			b.env.Ranks.PreferQUIC(p.Addrs...)
		}
		wg.Add(1)
		b.begin(p, func(err error) {
			errs[i] = err
			wg.Done()
		})
	}
	done := make(chan struct{})
	b.env.Tasks.Go(func() {
		defer close(done)
		wg.Wait()
		if b.env.Tasks.Context().Err() == nil {
			b.record(errs)
		}
	})
	return done
}

var errUnderWay = errors.New("a dial is under way")

// begin dials a peer at its addresses and hands on how that ended. At once, with errUnderWay, if
// the same is being done.
func (b *bootstrapper) begin(p peer.AddrInfo, ended func(error)) {
	key := p.String()
	b.mu.Lock()
	already := b.mu.underWay[key]
	b.mu.underWay[key] = true
	b.mu.Unlock()
	if already {
		ended(errUnderWay)
		return
	}
	done := func(err error) {
		b.mu.Lock()
		delete(b.mu.underWay, key)
		b.mu.Unlock()
		ended(err)
	}
	if !b.env.Tasks.Go(func() { done(b.dial(p)) }) {
		done(net.ErrClosed)
	}
}

func (b *bootstrapper) dial(p peer.AddrInfo) error {
	ctx, cancel := context.WithTimeout(b.env.Tasks.Context(), bootstrapTimeout)
	defer cancel()
	if b.env.Connected(p.ID) {
		return b.answered(ctx, p.ID)
	}
	b.env.Dialer.ForgetFailures(p.ID)
	if err := b.env.Dialer.Dial(ctx, p); err != nil {
		return &peers.Fault{Peer: p.ID, Err: err}
	}
	return b.answered(ctx, p.ID)
}

var errNoAnswer = errors.New("it takes the connection and then says nothing: it may refuse this peer, or be another " +
	"program")

// answered says whether a node has spoken to us over a connection on which it knew who we are: with
// TLS 1.3 a dial succeeds before the other side has looked at our certificate, and a run must not
// be founded because somebody refuses to talk. The word that counts is identify, which libp2p asks
// for on each connection: a gate of a private run does not hold it back. It comes within a round
// trip.
func (b *bootstrapper) answered(ctx context.Context, id peer.ID) error {
	for {
		said, err := b.env.Host.Peerstore().GetProtocols(id)
		if err == nil && len(said) > 0 {
			return nil
		}
		pause := time.NewTimer(answerPoll)
		select {
		case <-ctx.Done():
			pause.Stop()
		case <-pause.C:
		}
		if ctx.Err() != nil || b.env.Host.Network().Connectedness(id) == network.NotConnected {
			return &peers.Fault{Peer: id, Err: errors.Join(err, errNoAnswer)}
		}
	}
}

// record notes how a round ended, by the errors of the dials that it did not find under way.
func (b *bootstrapper) record(errs []error) {
	given, answered := len(errs), false
	if errs = slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, errUnderWay) }); len(errs) == 0 &&
		given > 0 {
		return
	}
	for _, err := range errs {
		answered = answered || err == nil
	}
	b.mu.Lock()
	b.mu.Attempts++
	b.mu.Answered = b.mu.Answered || answered
	b.mu.LastErr = errors.Join(errs...)
	state := b.mu.BootstrapState
	b.mu.Unlock()
	if len(errs) > 0 && !answered {
		level := slog.LevelDebug
		if state.Attempts&(state.Attempts-1) == 0 { // again and again is no news
			level = slog.LevelWarn
		}
		b.env.Log.Log(b.env.Tasks.Context(), level, "no bootstrap address answers", "err",
			strings.ReplaceAll(state.LastErr.Error(), "\n", "; "))
	}
}

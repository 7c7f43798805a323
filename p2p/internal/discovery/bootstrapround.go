package discovery

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/dial"
)

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
	if b.env.Host.Network().Connectedness(p.ID) == network.Connected {
		return nil
	}
	b.env.Dialer.ForgetFailures(p.ID)
	ctx, cancel := context.WithTimeout(b.env.Tasks.Context(), bootstrapTimeout)
	defer cancel()
	if err := b.env.Dialer.Dial(ctx, p); err != nil {
		return &dial.Fault{Peer: p.ID, Err: err}
	}
	return nil
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

package p2p

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
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
)

// round dials every bootstrap node not connected, and, when this peer is alone, the remembered ones, all at once; but for those under way. It is
// over when the bootstrap nodes have answered or failed.
func (b *bootstrapper) round() (over <-chan struct{}) {
	if len(b.n.host.Network().Peers()) == 0 {
		for _, p := range b.n.memory.known() {
			b.begin(p, func(err error) {
				if err != nil {
					b.n.log.Debug("remembered peer does not answer", "peer", p.ID, "err", err)
				}
			})
		}
	}
	var wg sync.WaitGroup
	given := b.nodes()
	errs := make([]error, len(given))
	for i, p := range given {
		if len(b.n.cfg.Announce) == 0 {
			b.n.ranks.preferQUIC(p.Addrs...)
		}
		wg.Add(1)
		b.begin(p, func(err error) {
			errs[i] = err
			wg.Done()
		})
	}
	done := make(chan struct{})
	b.n.goDo(func() {
		defer close(done)
		wg.Wait()
		if b.n.ctx.Err() == nil {
			b.record(errs)
		}
	})
	return done
}

var errUnderWay = errors.New("a dial is under way")

// begin dials a peer at its addresses and hands on how that ended. At once, with errUnderWay, if the same is being done.
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
	if !b.n.goDo(func() { done(b.dial(p)) }) {
		done(net.ErrClosed)
	}
}

func (b *bootstrapper) dial(p peer.AddrInfo) error {
	if b.n.host.Network().Connectedness(p.ID) == network.Connected {
		return nil
	}
	b.n.forgetFailures(p.ID)
	ctx, cancel := context.WithTimeout(b.n.ctx, bootstrapTimeout)
	defer cancel()
	if err := b.n.dial(ctx, p); err != nil {
		return &dialFault{p.ID, err}
	}
	return nil
}

// record notes how a round ended, by the errors of the dials that it did not find under way.
func (b *bootstrapper) record(errs []error) {
	given, answered := len(errs), false
	if errs = slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, errUnderWay) }); len(errs) == 0 && given > 0 {
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
		b.n.log.Log(b.n.ctx, level, "no bootstrap address answers", "err", strings.ReplaceAll(state.LastErr.Error(), "\n", "; "))
	}
}

// forgetFailures lets the next dial of a peer happen at once: libp2p holds failed addresses back for 5 s and more, and for
// minutes after many failures.
func (n *Network) forgetFailures(p peer.ID) {
	if s, ok := n.host.Network().(*swarm.Swarm); ok {
		s.Backoff().Clear(p)
	}
}

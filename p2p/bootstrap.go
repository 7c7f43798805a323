package p2p

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
)

const (
	bootstrapRetryMin = 500 * time.Millisecond
	bootstrapRetryMax = 15 * time.Second
	bootstrapCheck    = 30 * time.Second // how often a peer with neighbours looks after the rest
	bootstrapTimeout  = 10 * time.Second
)

// BootstrapState says how looking for the bootstrap addresses goes.
type BootstrapState struct {
	Given    []string // addresses given, without this peer's own
	Answered bool     // one of them has answered since the start
	Attempts int      // rounds of trying them all
	LastErr  error    // why the last round failed, nil if it did not
}

// ErrNoBootstrap is wrapped by the error that says no bootstrap address has answered.
var ErrNoBootstrap = errors.New("no bootstrap address answers yet")

// Err is nil once a bootstrap address answered, or if none was given. Otherwise it names the addresses and the last failure.
func (b BootstrapState) Err() error {
	if b.Answered || len(b.Given) == 0 {
		return nil
	}
	why := "still trying"
	if b.LastErr != nil {
		why = strings.Join(strings.Fields(b.LastErr.Error()), " ") // libp2p spreads dial errors over lines
	}
	return fmt.Errorf("%w: %s (%s)", ErrNoBootstrap, strings.Join(b.Given, ", "), why)
}

// Bootstrap tells how looking for the bootstrap addresses goes.
func (n *Network) Bootstrap() BootstrapState { return n.boot.state() }

// bootstrapper connects to the bootstrap addresses, and to remembered peers, whenever this peer knows nobody.
type bootstrapper struct {
	n      *Network
	given  []peer.AddrInfo
	lonely chan struct{} // the last connection ended
	mu     struct {
		sync.Mutex
		BootstrapState
	}
}

func newBootstrapper(n *Network) *bootstrapper {
	b := &bootstrapper{n: n, lonely: make(chan struct{}, 1)}
	for _, s := range n.cfg.Bootstrap {
		info, err := peer.AddrInfoFromString(s)
		if err == nil && info.ID != n.host.ID() { // Validate has refused what does not parse
			b.given = append(b.given, *info)
			b.mu.Given = append(b.mu.Given, s)
		}
	}
	n.events.subscribe(func(_ peer.ID, connected bool) {
		if !connected && len(n.host.Network().Peers()) == 0 {
			select {
			case b.lonely <- struct{}{}:
			default:
			}
		}
	})
	return b
}

func (b *bootstrapper) state() BootstrapState {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.BootstrapState
}

func (b *bootstrapper) run() {
	retry := bootstrapRetryMin
	for b.n.ctx.Err() == nil {
		alone := len(b.n.host.Network().Peers()) == 0
		b.round(alone)
		wait := bootstrapCheck
		if b.wanting() {
			wait = retry
			retry = min(2*retry, bootstrapRetryMax)
		} else {
			retry = bootstrapRetryMin
		}
		select {
		case <-b.n.ctx.Done():
		case <-b.lonely:
		case <-time.After(wait):
		}
	}
}

// wanting says whether to try again soon: nobody is connected though somebody could be.
func (b *bootstrapper) wanting() bool {
	known := len(b.given) > 0 || len(b.n.memory.known()) > 0
	return known && len(b.n.host.Network().Peers()) == 0
}

// round dials every bootstrap address not connected, and, when this peer is alone, the remembered ones, all at once.
func (b *bootstrapper) round(alone bool) {
	var wg sync.WaitGroup
	if alone {
		for _, p := range b.n.memory.known() {
			wg.Go(func() {
				if err := b.dial(p); err != nil {
					b.n.log.Debug("remembered peer does not answer", "peer", p.ID, "err", err)
				}
			})
		}
	}
	errs := make([]error, len(b.given))
	for i, p := range b.given {
		wg.Go(func() { errs[i] = b.dial(p) })
	}
	wg.Wait()
	if b.n.ctx.Err() == nil {
		b.record(errs)
	}
}

func (b *bootstrapper) dial(p peer.AddrInfo) error {
	if b.n.host.Network().Connectedness(p.ID) == network.Connected {
		return nil
	}
	b.n.forgetFailures(p.ID)
	ctx, cancel := context.WithTimeout(b.n.ctx, bootstrapTimeout)
	defer cancel()
	if err := b.n.host.Connect(ctx, p); err != nil {
		return fmt.Errorf("%s: %w", p.ID, err)
	}
	return nil
}

func (b *bootstrapper) record(errs []error) {
	answered := false
	for _, err := range errs {
		answered = answered || err == nil
	}
	b.mu.Lock()
	b.mu.Attempts++
	b.mu.Answered = b.mu.Answered || answered
	b.mu.LastErr = errors.Join(errs...)
	b.mu.Unlock()
	if len(errs) > 0 && !answered {
		b.n.log.Warn("no bootstrap address answers", "err", errors.Join(errs...))
	}
}

// forgetFailures lets the next dial of a peer happen at once: libp2p holds failed addresses back for 5 s and more, and for
// minutes after many failures.
func (n *Network) forgetFailures(p peer.ID) {
	if s, ok := n.host.Network().(*swarm.Swarm); ok {
		s.Backoff().Clear(p)
	}
}

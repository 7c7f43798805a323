package discovery

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

const (
	advertiseRetryMin = 250 * time.Millisecond
	advertiseRetryMax = 5 * time.Second
	// after the first success; doubles up to Config.AdvertiseEvery, or what is seldom
	advertiseFirst   = 2 * time.Second
	advertiseSettle  = time.Second // after a peer came: time for it to enter the routing table
	advertiseTimeout = 30 * time.Second
	smallSwarm       = 20 // Kademlia's bucket size: below it every peer should hold every record
)

type advertiser struct {
	env    Env
	every  time.Duration
	places *Places
	came   peers.Signal // a peer connected that has to be told
}

// onConnection has newcomers told while the swarm is small, and bootstrap nodes always: one that
// was started again knows nobody, and it is the first one that newcomers ask.
func (a *advertiser) onConnection(id peer.ID, connected bool) {
	if connected && (a.env.DHT.RoutingTable().Size() < smallSwarm || a.env.Dialer.IsNode(id)) {
		a.came.Raise()
	}
}

// loop is driven by hand because libp2p's own helper sleeps 2 minutes after a failure, and right
// after the start it fails.
func (a *advertiser) loop(ctx context.Context) {
	retry, next := advertiseRetryMin, advertiseFirst
	for ctx.Err() == nil {
		wait := next
		names, changed := a.places.now()
		if err := a.provide(ctx, names); err != nil {
			a.env.Log.Debug("announcing the run failed", "places", names, "err", err)
			wait = retry
			retry = min(2*retry, advertiseRetryMax)
		} else {
			retry = advertiseRetryMin
			next = min(2*next, max(a.every, seldom(a.env.DHT.RoutingTable().Size())))
		}
		if a.pause(ctx, wait, changed) {
			next = advertiseFirst
		}
	}
}

// pause waits, less long when a peer comes meanwhile, and not when there are other places, which it
// says.
func (a *advertiser) pause(ctx context.Context, wait time.Duration, changed <-chan struct{}) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	deadline := time.Now().Add(wait)
	for {
		select {
		case <-ctx.Done():
			return false
		case <-changed:
			return true
		case <-timer.C:
			return false
		case <-a.came:
			if left := time.Until(deadline); left > advertiseSettle {
				deadline = time.Now().Add(advertiseSettle)
				timer.Reset(advertiseSettle)
			}
		}
	}
}

var errNoNeighbours = errors.New("the routing table is empty")

func (a *advertiser) provide(ctx context.Context, names []string) error {
	if a.env.DHT.RoutingTable().Size() == 0 {
		return errNoNeighbours
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, a.provideAt(ctx, name))
	}
	return errors.Join(errs...)
}

func (a *advertiser) provideAt(ctx context.Context, name string) error {
	key, err := runKey(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, advertiseTimeout)
	defer cancel()
	return a.env.DHT.Provide(ctx, key, true)
}

// Places are the names under which the peers of a run announce themselves and look for each other,
// where these change: those of a private run come from its secrets.
type Places struct {
	mu struct {
		sync.Mutex
		names   []string
		changed chan struct{} // closed when they do
	}
}

// NewPlaces are places that can be Set again.
func NewPlaces(names ...string) *Places {
	p := &Places{}
	p.mu.names, p.mu.changed = names, make(chan struct{})
	return p
}

// Set replaces them. What is announced under names that are gone ends with its time in the DHT.
func (p *Places) Set(names ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Equal(names, p.mu.names) {
		return
	}
	close(p.mu.changed)
	p.mu.names, p.mu.changed = slices.Clone(names), make(chan struct{})
}

// now are the names, and what is closed when there are others.
func (p *Places) now() (names []string, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.names, p.mu.changed
}

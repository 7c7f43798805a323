package p2p

import (
	"context"
	"errors"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

const (
	advertiseRetryMin = 250 * time.Millisecond
	advertiseRetryMax = 5 * time.Second
	advertiseFirst    = 2 * time.Second // after the first success; doubles up to Config.AdvertiseEvery
	advertiseSettle   = time.Second     // after a peer came: time for it to enter the routing table
	advertiseTimeout  = 30 * time.Second
	smallSwarm        = 20 // Kademlia's bucket size: below it every peer should hold every record
)

// Advertise announces in the DHT, until ctx or the Network ends, that this peer takes part in a run. It returns at once.
//
// The first announcements come close together, and one follows each newcomer while the swarm is small: a record put while only
// the bootstrap node was known would die with it.
func (n *Network) Advertise(ctx context.Context, run string) {
	a := &advertiser{n: n, run: run, came: make(chan struct{}, 1)}
	n.goDo(func() {
		ctx, cancel := n.joined(ctx)
		defer cancel()
		defer n.events.subscribe(a.onConnection)()
		a.loop(ctx)
	})
}

type advertiser struct {
	n    *Network
	run  string
	came chan struct{} // a peer connected
}

func (a *advertiser) onConnection(_ peer.ID, connected bool) {
	if connected && a.n.dht.RoutingTable().Size() < smallSwarm {
		select {
		case a.came <- struct{}{}:
		default:
		}
	}
}

// loop is driven by hand because libp2p's own helper sleeps 2 minutes after a failure, and right after the start it fails.
func (a *advertiser) loop(ctx context.Context) {
	retry, next := advertiseRetryMin, advertiseFirst
	for ctx.Err() == nil {
		wait := next
		if err := a.provide(ctx); err != nil {
			a.n.log.Debug("announcing the run failed", "run", a.run, "err", err)
			wait = retry
			retry = min(2*retry, advertiseRetryMax)
		} else {
			retry = advertiseRetryMin
			next = min(2*next, a.n.cfg.AdvertiseEvery)
		}
		a.pause(ctx, wait)
	}
}

// pause waits, less long when a peer comes meanwhile.
func (a *advertiser) pause(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	deadline := time.Now().Add(wait)
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-a.came:
			if left := time.Until(deadline); left > advertiseSettle {
				deadline = time.Now().Add(advertiseSettle)
				timer.Reset(advertiseSettle)
			}
		}
	}
}

var errNoNeighbours = errors.New("the routing table is empty")

func (a *advertiser) provide(ctx context.Context) error {
	key, err := runKey(a.run)
	if err != nil {
		return err
	}
	if a.n.dht.RoutingTable().Size() == 0 {
		return errNoNeighbours
	}
	ctx, cancel := context.WithTimeout(ctx, advertiseTimeout)
	defer cancel()
	return a.n.dht.Provide(ctx, key, true)
}

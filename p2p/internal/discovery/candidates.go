package discovery

import (
	"context"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
)

// Anybody may announce any number of peers that are not there: their addresses cost nothing. So
// peers that were found are dialled many at a time, for a short time at first, those first that
// have failed least. A peer that never answered is tried ever more seldom.
const (
	maxCandidates = 4096 // peers found that are kept in mind
	// addresses of one of them, as many as libp2p keeps: an answer of the DHT may have 800, which
	// take 100 KB
	maxFoundAddrs = 64
	// of them dialled at once: 500 that are not there take no longer than the window in which a
	// newcomer looks for the run
	maxDials = 128
	// in a row, then a peer is dropped if it was not found again lately
	maxFailures = 12
	firstDial   = 4 * time.Second // a peer's first chance; the next ones have connectTimeout
	redialFirst = time.Second     // after the first failure of one that never answered; doubles
	redialMost  = 32              // times Config.FindEvery is where that ends
	foundLately = 4               // times Config.FindEvery ago
	// time for a hello after connecting; a peer that has sent none gives its place to others
	greetWithin = time.Minute
)

type candidate struct {
	info     peer.AddrInfo
	found    time.Time // last
	reported bool      // since it connected
	dialling bool
	met      bool      // it was connected once
	came     time.Time // when it was connected last
	failures int       // since
	silent   int       // connections in a row of which no hello came
	next     time.Time // it is not dialled before
}

// consider takes up a peer that was found.
func (f *finder) consider(ctx context.Context, p peer.AddrInfo) {
	if p.ID == f.env.Host.ID() || p.ID.Validate() != nil {
		return
	}
	c := f.candidates[p.ID]
	if c == nil {
		if len(f.candidates) >= maxCandidates && !f.makeRoom() {
			return
		}
		c = &candidate{}
		f.candidates[p.ID] = c
	}
	if len(p.Addrs) > 0 || c.info.ID == "" {
		p.Addrs = slices.Clone(p.Addrs[:min(len(p.Addrs), maxFoundAddrs)])
		c.info = p
	}
	c.found = time.Now()
	if f.connected(c) {
		f.report(c)
		return
	}
	f.dialMore(ctx)
}

// makeRoom drops a candidate that has not answered, or one that takes connections and says nothing:
// announcements of such peers, which anybody can make any number of, must not keep out others. It
// says whether there was one.
func (f *finder) makeRoom() bool {
	var worst *candidate
	now := time.Now()
	for _, c := range f.candidates {
		if !c.dialling && (c.failures > 0 || f.unresponsive(c, now)) && (worst == nil || c.failures > worst.failures) {
			worst = c
		}
	}
	if worst != nil {
		delete(f.candidates, worst.info.ID)
	}
	return worst != nil
}

// unresponsive says whether a candidate had time for a hello since it was connected last, and none
// went well.
func (f *finder) unresponsive(c *candidate, now time.Time) bool {
	return !c.came.IsZero() && now.Sub(c.came) > greetWithin && !f.env.Greeted.Has(c.info.ID, now)
}

// parted has an unresponsive candidate wait ever longer: it would else be dialled in each round, to
// say nothing.
func (f *finder) parted(c *candidate, now time.Time) {
	if !f.unresponsive(c, now) {
		c.silent = 0
		return
	}
	c.silent = min(c.silent+1, maxFailures)
	c.next = now.Add(min(redialFirst<<c.silent, redialMost*f.cfg.FindEvery))
}

func (f *finder) connected(c *candidate) bool {
	return f.env.Host.Network().Connectedness(c.info.ID) != network.NotConnected
}

// redial goes after every candidate that is not connected.
func (f *finder) redial(ctx context.Context) {
	for _, c := range f.candidates {
		if f.connected(c) {
			f.report(c)
		} else {
			c.reported = false
		}
	}
	f.dialMore(ctx)
}

// dialMore dials as many as may be at once.
func (f *finder) dialMore(ctx context.Context) {
	for now := time.Now(); f.dials < maxDials && ctx.Err() == nil; {
		c := f.nextDial(now)
		if c == nil {
			return
		}
		c.dialling, c.reported = true, false
		f.dials++
		info, first := c.info, c.failures == 0 && !c.met
		go func() {
			f.dialled <- dialResult{info.ID, f.try(ctx, info, first)} // room for maxDials
		}()
	}
}

// nextDial is the candidate that is dialled next, nil for none: one that failed least often.
func (f *finder) nextDial(now time.Time) (best *candidate) {
	for _, c := range f.candidates {
		if c.dialling || c.next.After(now) || best != nil && best.failures <= c.failures || f.connected(c) {
			continue
		}
		if best = c; c.failures == 0 {
			break
		}
	}
	return best
}

// try connects to a peer. Its first chance is short, and nobody else is asked where it might be.
func (f *finder) try(ctx context.Context, p peer.AddrInfo, first bool) error {
	if !first {
		return f.env.Dialer.Connect(ctx, p)
	}
	ctx, cancel := context.WithTimeout(ctx, firstDial)
	defer cancel()
	return f.env.Dialer.Dial(ctx, p)
}

func (f *finder) dialEnded(r dialResult) {
	f.dials--
	c := f.candidates[r.id]
	if c == nil {
		return
	}
	c.dialling = false
	if r.err == nil {
		// The connection's event reports it. It may have ended by now, and libp2p goes on giving
		// the ended one to all that dial, while another dial of the peer is under way.
		if !f.connected(c) {
			c.next = time.Now().Add(f.cfg.FindEvery / 2)
		}
		return
	}
	f.env.Log.Debug("peer found does not answer", "peer", r.id, "err", r.err)
	now := time.Now()
	c.failures = min(c.failures+1, maxFailures)
	if c.failures == maxFailures && now.Sub(c.found) > foundLately*f.cfg.FindEvery {
		delete(f.candidates, r.id)
		return
	}
	c.next = now.Add(f.pause(c))
}

// pause is how long one that failed is left alone. A peer that was there once may be back any
// moment: it is dialled after each search.
func (f *finder) pause(c *candidate) time.Duration {
	if c.met {
		return f.cfg.FindEvery / 2
	}
	return min(redialFirst<<(c.failures-1), redialMost*f.cfg.FindEvery)
}

package peers

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

const (
	maxTargets = 4096 // peers found that are kept in mind
	// addresses of one of them, as many as libp2p keeps: an answer of the DHT may have 800, which
	// take 100 KB
	maxFoundAddrs = 64
)

// Found has a peer dialled that a search found, until SearchEnded. It says whether there is a
// connection to it.
func (d *Dialer) Found(p peer.AddrInfo) (connected bool) {
	if p.ID == d.env.Host.ID() || p.ID.Validate() != nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.targets[p.ID] == nil && len(d.mu.targets) >= maxTargets && !d.makeRoom() {
		return false
	}
	t := d.target(p.ID)
	if t.found = time.Now(); len(p.Addrs) > 0 && !t.node {
		t.Addrs = slices.Clone(p.Addrs[:min(len(p.Addrs), maxFoundAddrs)])
	}
	if connected = d.env.reached(p.ID); connected && t.came.IsZero() {
		t.came = t.found
	}
	d.wake.Raise()
	return connected
}

// makeRoom drops a stranger that has not answered, or one that takes connections and says nothing:
// announcements of such peers, which anybody can make any number of, must not keep out others. It
// says whether there was one. mu is held.
func (d *Dialer) makeRoom() bool {
	var worst *target
	now := time.Now()
	for _, t := range d.mu.targets {
		if !t.dialling && (worst == nil || t.failures > worst.failures) &&
			(t.failures > 0 && d.stranger(t, now) || d.unresponsive(t, now)) {
			worst = t
		}
	}
	if worst != nil {
		delete(d.mu.targets, worst.ID)
	}
	return worst != nil
}

// Searched are the peers that searches found, and whether each has had its first chance.
func (d *Dialer) Searched() map[peer.ID]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	tried := make(map[peer.ID]bool)
	for id, t := range d.mu.targets {
		if !t.found.IsZero() {
			tried[id] = t.failures > 0 || !t.came.IsZero()
		}
	}
	return tried
}

// SearchEnded forgets what searches found.
func (d *Dialer) SearchEnded() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.mu.targets {
		t.found = time.Time{}
	}
}

package p2p

import (
	"context"
	"slices"
	"strings"
	"time"
)

const (
	mappedWait = 5 * time.Second // for the peers asked to answer
	mappedPoll = 100 * time.Millisecond
)

// Mapped is how peers at some addresses see one UDP socket of this machine, as multiaddrs: behind
// NAT they are equal where holes can be punched. It takes a network and an identity of its own,
// which end with it, and returns what it has learned when 5 s or ctx are over.
func Mapped(ctx context.Context, addrs []string) (seen []string, err error) {
	cfg := LAN()
	cfg.Bootstrap, cfg.Transports = addrs, []string{TransportQUIC}
	n, err := New(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer n.Close() //nolint:errcheck // nothing of it is kept
	ctx, cancel := context.WithTimeout(ctx, mappedWait)
	defer cancel()
	given := make(map[string]bool)
	for _, a := range addrs {
		given[a[strings.LastIndexByte(a, '/')+1:]] = true
	}
	for asked := n.Peers()[:0]; ctx.Err() == nil && len(asked) < len(given); {
		for _, p := range n.Peers() {
			if slices.Contains(asked, p) {
				continue
			}
			asked = append(asked, p)
			if r, err := n.Probe(ctx, p, 0); err == nil && r.Observed != "" {
				seen = append(seen, r.Observed)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(mappedPoll):
		}
	}
	return seen, nil
}

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/cmd/p2pdiloco/internal/report"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// wayTo says how a member is reached: over what, through which relay, how far it is.
func wayTo(m p2pdiloco.MemberStatus) string {
	if m.Self {
		return ""
	}
	if m.Path == nil {
		return "not connected"
	}
	parts := []string{m.Path.Way}
	switch {
	case m.Path.Way == p2p.WayRelayed:
		parts = append(parts, "by "+m.Path.Relay.Short())
	default:
		parts = append(parts, strings.TrimSuffix(m.Path.Transport, "-v1"))
	}
	if m.Path.RTT > 0 {
		parts = append(parts, m.Path.RTT.Round(100*time.Microsecond).String())
	}
	return strings.Join(parts, " ")
}

// reached says in plain words how others reach this peer.
func reached(r p2p.Reach) string {
	var parts []string
	switch {
	case r.Public:
		parts = append(parts, "directly, from everywhere")
	case len(r.Relays) > 0:
		short := make([]string, len(r.Relays))
		for i, id := range r.Relays {
			short[i] = id.Short()
		}
		parts = append(parts, "through "+strings.Join(short, " and ")+", and directly where its network lets others through")
	default:
		parts = append(parts, "directly, by those to whom its network lets them through")
	}
	if r.Relaying {
		parts = append(parts, fmt.Sprintf("relays for others (%s so far)", report.Bytes(r.Carried.Sent)))
	}
	return strings.Join(parts, "; ")
}

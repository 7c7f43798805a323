package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// wayTo says how a member is reached: transport, relay, round trip.
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

// reached says how other peers reach this one.
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
		parts = append(parts, "through "+strings.Join(short, " and ")+
			", and directly where its network lets connections in")
	default:
		parts = append(parts, "directly, where its network lets connections in")
	}
	if r.Relaying {
		parts = append(parts, fmt.Sprintf("relays for others (%s so far)", humanize.Bytes(r.Carried.Sent)))
	}
	return strings.Join(parts, "; ")
}

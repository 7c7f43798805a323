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
	if m.Path.Way == p2p.WayRelayed {
		parts = append(parts, "by "+m.Path.Relay.Short())
	} else {
		parts = append(parts, strings.TrimSuffix(m.Path.Transport, "-v1"))
	}
	if m.Path.RTT > 0 {
		parts = append(parts, m.Path.RTT.Round(100*time.Microsecond).String())
	}
	return strings.Join(parts, " ")
}

// reached says how other peers reach this one.
func reached(r p2p.Reach) string {
	text := "directly, where its network lets connections in"
	if r.Public {
		text = "directly, from everywhere"
	} else if len(r.Relays) > 0 {
		var short []string
		for _, id := range r.Relays {
			short = append(short, id.Short())
		}
		text = "through " + strings.Join(short, " and ") + ", and " + text
	}
	if r.Relaying {
		text += fmt.Sprintf("; relays for others (%s so far)", humanize.Bytes(r.Carried.Sent))
	}
	return text
}

package slot

import (
	"math"
	"math/bits"
)

// Links is what the peers of a plan report about the links between them, by their places in Offers.
// It only helps to divide work: nothing that is agreed depends on it. A nil part is unknown.
type Links struct {
	Ways [][]Link // Ways[i][j] is what i reports about its link to j
	// Uplinks is what each peer can send to all others together, by its own measure: a speed, or at
	// most LinkDirect.
	Uplinks []Link
	NoRing  bool // a ring failed lately, so no new group gets one
	// NoOwner are the peers that must not own pieces, unless nobody else is left.
	NoOwner []bool
}

// Link is one peer's report about its link to another: a speed on a logarithmic scale, or one of
// the values below. linkRelayed is added to it if the link leads through a relay.
type Link uint8

// Values that are no speed.
const (
	LinkUnknown Link = 0 // no report
	LinkNone    Link = 1 // all attempts failed
	LinkDirect  Link = 2 // connected, at unknown speed
	linkSlowest Link = 3 // 1 kB/s; each step above is a quarter of a doubling

	linkRelayed   Link = 0x80
	fastestOnLink      = 1<<31 - 1 // kB/s, below linkRelayed
)

// LinkOf is the link of a speed in kB/s, rounded down to a quarter of a doubling. For 0 it is
// LinkDirect.
func LinkOf(speed uint32) Link {
	if speed == 0 {
		return LinkDirect
	}
	speed = min(speed, fastestOnLink)
	whole := bits.Len32(speed) - 1
	quarters := 0
	for quarters < 3 && float64(speed) >= math.Exp2(float64(whole)+float64(quarters+1)/4) {
		quarters++
	}
	return linkSlowest + Link(4*whole+quarters)
}

// Speed is the speed of the link in kB/s, or 0 if it is not known.
func (l Link) Speed() float64 {
	if l = l.plain(); l < linkSlowest {
		return 0
	}
	return math.Exp2(float64(l-linkSlowest) / 4)
}

// Way is the link as one that exists, direct or through a relay.
func (l Link) Way(relayed bool) Link {
	if l = max(LinkDirect, l.plain()); relayed {
		l |= linkRelayed
	}
	return l
}

// Relayed tells whether the link leads through a relay.
func (l Link) Relayed() bool { return l&linkRelayed != 0 }

func (l Link) plain() Link { return l &^ linkRelayed }

// Between joins the reports of both ends of a pair. There is no link if one end reports that there
// is none and the other end reports no link. The speed from i to j is the one that i measured, or
// else the one that j measured in the other direction. The link leads through a relay if one end
// reports so.
func (ls Links) Between(i, j int) Link {
	if len(ls.Ways) == 0 {
		return LinkUnknown
	}
	here, there := ls.Ways[i][j], ls.Ways[j][i]
	if here.Relayed() || there.Relayed() {
		return join(here.plain(), there.plain()).Way(true)
	}
	return join(here, there)
}

func join(here, there Link) Link {
	switch {
	case here >= linkSlowest:
		return here
	case there >= LinkDirect:
		return there
	case here == LinkUnknown:
		return there
	}
	return here
}

// Uplink is the speed in kB/s at which a peer reports that it can send, or 0 if it is not known.
func (ls Links) Uplink(i int) float64 {
	if len(ls.Uplinks) == 0 {
		return 0
	}
	return ls.Uplinks[i].Speed()
}

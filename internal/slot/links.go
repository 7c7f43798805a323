package slot

import (
	"math"
	"math/bits"
)

// Links is what the peers of a plan say of the ways between them, as places in Offers. It only helps to divide work: nothing that is
// agreed depends on it. Nothing is known of what is nil.
type Links struct {
	Ways    [][]Link // Ways[i][j] is i's word on its way to j
	Uplinks []Link   // what each can send to all together, by its own measure: a speed or no more than LinkDirect
	NoRing  bool     // a ring failed lately: no new group is to have one
}

// Link is one peer's word on its way to another: a speed on a logarithmic scale, or one of the values below. With linkRelayed added it is of
// a way through a relay.
type Link uint8

// What is not a speed.
const (
	LinkUnknown Link = 0 // nothing was heard
	LinkNone    Link = 1 // it tried in vain
	LinkDirect  Link = 2 // it has one, of unknown speed
	linkSlowest Link = 3 // 1 kB/s; each step above is a quarter of a doubling

	linkRelayed   Link = 0x80
	fastestOnLink      = 1<<31 - 1 // kB/s, below linkRelayed
)

// LinkOf is the link of a speed in kB/s, rounded down to a quarter of a doubling; of 0, LinkDirect.
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

// Speed is the link's in kB/s; 0 if it is not known.
func (l Link) Speed() float64 {
	if l = l.plain(); l < linkSlowest {
		return 0
	}
	return math.Exp2(float64(l-linkSlowest) / 4)
}

// Way is the word as one on a way that there is, direct or through a relay.
func (l Link) Way(relayed bool) Link {
	if l = max(LinkDirect, l.plain()); relayed {
		l |= linkRelayed
	}
	return l
}

// Relayed says whether the way leads through a relay.
func (l Link) Relayed() bool { return l&linkRelayed != 0 }

func (l Link) plain() Link { return l &^ linkRelayed }

// Between joins the words of both ends of a pair: there is a way unless one end says that there is none and the other does not say
// that there is; its speed from i to j is what i measured, else what j did in the other direction. It leads through a relay if one end
// says so.
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

// Uplink is what a peer says that it can send, in kB/s; 0 if it is not known.
func (ls Links) Uplink(i int) float64 {
	if len(ls.Uplinks) == 0 {
		return 0
	}
	return ls.Uplinks[i].Speed()
}

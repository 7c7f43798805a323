package chaos

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/node/timing"
)

// Presets lists the timing presets that peers can have.
var Presets = []string{timing.LAN, timing.WAN}

// timing are the timers of the peers.
func (c Config) timing() timing.Preset {
	p, _ := timing.Named(cmp.Or(c.Preset, timing.LAN)) // Validate has looked
	return p
}

// stretch makes of a time with the preset lan what it is with the peers' preset: as much longer as
// it takes until a member is lost.
func (c Config) stretch(d time.Duration) time.Duration {
	lan, _ := timing.Named(timing.LAN)
	return time.Duration(float64(d) * float64(c.timing().Ledger.Lost) / float64(lan.Ledger.Lost))
}

// schedule draws the faults, and makes them as long as the preset wants it.
func (c Config) schedule() []Fault {
	faults := c.drawn()
	seconds := func(s float64) float64 { return math.Round(10*c.stretch(time.Second).Seconds()*s) / 10 }
	for i := range faults {
		f := &faults[i]
		if f.Kind == Load { // it takes the processors for as long, whatever the timers are
			continue
		}
		if f.Kind == Partition && f.Seconds >= forkTime { // it waits for a fork
			f.Seconds = seconds(f.Seconds-forkTime) + c.timing().Ledger.ForkAfter.Seconds()
			continue
		}
		f.Seconds, f.Nap = seconds(f.Seconds), seconds(f.Nap)
	}
	return faults
}

// drawn draws the faults. Where the whole run has its load the fault of kind Load is a kill, and
// comes once, at the end: until then no member may be lost to load. A pair that is asked for alone
// is cut once, for half of the slots: then there are as many others to compare their time with.
func (c Config) drawn() []Fault {
	once := func(k Kind) bool { return k.cutsPair() && c.pairAlone() || k == Load && c.Load > 0 }
	faults := Schedule(c.Seed, c.Peers, c.Slots, slices.DeleteFunc(slices.Clone(c.Kinds), once))
	if c.Slots < minSlots {
		return faults
	}
	rng := rand.New(rand.NewPCG(c.Seed, 0x6f_6e_63_65))
	for _, k := range c.Kinds {
		if !once(k) {
			continue
		}
		f := Fault{Slot: c.Slots - quietLast, Kind: k, Pick: rng.Uint64() >> 32}
		if k != Load {
			f.Slot, f.Slots = max(quietFirst, c.Slots/4), c.Slots/2
		}
		faults = append([]Fault{f}, faults...) // before one at the run's end
	}
	slices.SortStableFunc(faults, func(a, b Fault) int { return cmp.Compare(a.Slot, b.Slot) })
	return faults
}

// turnAfter is for how long those that are left may take to go on in a fault of kind Turns, and
// after them those that come back: with trust crash the former fork the run, also on a busy
// machine. With trust byzantine they wait in vain.
func (c Config) turnAfter() time.Duration {
	slack := 15 * time.Second
	if c.forks() {
		slack = 30 * time.Second
	}
	return c.timing().Ledger.ForkAfter + c.stretch(slack)
}

// forks says whether fewer than a quorum go on as a branch.
func (c Config) forks() bool { return c.Trust != p2pdiloco.TrustByzantine }

// lostLate is how long it may take until the others miss a peer that was killed under load: three
// times what the preset takes for lost.
func (c Config) lostLate() time.Duration { return 3 * c.timing().Ledger.Lost }

// link is an undisturbed link: that of a building's network, or of a connection over the internet.
func (c Config) link() lab.Link {
	if c.Preset == timing.WAN {
		return wanLink
	}
	return goodLink
}

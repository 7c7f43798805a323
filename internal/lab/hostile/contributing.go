package hostile

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// offers has something change each own contribution before it is offered.
func (l *liar) offers(change func(slotNumber uint64, c *allreduce.Contribution)) {
	l.Offer = func(slotNumber uint64, c *allreduce.Contribution) {
		l.attacking(func() { change(slotNumber, c) })
	}
}

// spoils makes a kind that offers other values than it has trained, with hashes and norms that fit.
// spoil returns false if it has none yet.
func spoils(spoil func(l *liar, slotNumber uint64, x []float32) bool) func(*liar) {
	return func(l *liar) {
		l.offers(func(slotNumber uint64, c *allreduce.Contribution) {
			x := c.Values()
			if spoil(l, slotNumber, x) && c.Change(x) == nil {
				l.did("slot %d: it offers other values", slotNumber)
			}
		})
	}
}

// scales offers a multiple of what it has trained.
func scales(by float32) func(*liar) {
	return spoils(func(_ *liar, _ uint64, x []float32) bool {
		scale(x, by)
		return true
	})
}

// replay offers to each slot what it has offered to the first slot of the attack that was of the
// same fragment.
func replay(l *liar) {
	first := map[uint32][]float32{}
	spoils(func(l *liar, slotNumber uint64, x []float32) bool {
		fragment := l.rules.Fragment(slotNumber)
		if first[fragment] == nil {
			first[fragment] = slices.Clone(x)
			return false
		}
		return copy(x, first[fragment]) > 0
	})(l)
}

// guesses makes a kind that offers so many times the mean of the honest ones, and so many of their
// standard deviations beside it. Unless it knows what they have offered, it has only a guess: what
// it has trained itself in the slots of the attack is as good a sample of what others train as it
// can have before it must offer.
func guesses(means, deviations float64) func(*liar) {
	return func(l *liar) {
		var own [][]float32
		spoils(func(l *liar, slotNumber uint64, x []float32) bool {
			own = append(own, slices.Clone(x))
			samples := own
			if l.Others != nil {
				samples = l.Others(slotNumber)
			}
			samples = slices.DeleteFunc(slices.Clone(samples), func(s []float32) bool { return len(s) != len(x) })
			for i := range x {
				sum, squares, n := 0.0, 0.0, float64(len(samples))
				for _, s := range samples {
					v := float64(s[i])
					sum, squares = sum+v, squares+v*v
				}
				mean := sum / n
				x[i] = float32(means*mean + deviations*math.Sqrt(max(0, squares/n-mean*mean)))
			}
			return len(samples) > 1 // of one nothing is known
		})(l)
	}
}

// twin offers what an honest peer has, or else is one of several that train once: whichever is done
// first leaves its values in the folder that they share, and the others offer the same.
func twin(l *liar, slotNumber uint64, x []float32) bool {
	if l.Others != nil {
		return copy(x, slices.Concat(l.Others(slotNumber)...)) == len(x)
	}
	name := filepath.Join(l.Folder, fmt.Sprintf("shared-%d", slotNumber))
	own := name + "-" + l.self.String()
	_ = os.WriteFile(own, kernel.Bytes(x), 0o600) // without it they do nothing
	// only the first one's file takes the name, and it is whole
	if os.Link(own, name) == nil {
		return false
	}
	b, _ := os.ReadFile(name)
	return len(b) == 4*len(x) && copy(kernel.Bytes(x), b) > 0
}

// falseNorms offers contributions with norms that their frames do not have.
func falseNorms(l *liar) {
	l.offers(func(slotNumber uint64, c *allreduce.Contribution) {
		for f := range c.Leaves() {
			c.Leaves()[f].NormSq *= 4
		}
		c.Recommit()
		l.did("slot %d: an offer with false norms", slotNumber)
	})
}

// falseTotal offers a norm that is not that of its frames together: one frame has another norm
// until the offer is on its way.
func falseTotal(l *liar) {
	restore := func() {}
	l.offers(func(slotNumber uint64, c *allreduce.Contribution) {
		restore()
		changed := &c.Leaves()[0]
		was := *changed
		restore = func() { *changed = was }
		changed.NormSq *= 2
		l.did("slot %d: an offer with a false norm", slotNumber)
	})
	l.says = func(_ slot.PeerID, m wire.Message) bool {
		if _, is := m.Body.(wire.Offer); is {
			restore()
		}
		return true
	}
}

// overweight claims a weight of 2^50 tokens.
func overweight(l *liar) {
	l.Claims = func(slotNumber, weight uint64) uint64 {
		l.attacking(func() {
			weight = 1 << 50
			l.did("slot %d: it claims a weight of %d", slotNumber, weight)
		})
		return weight
	}
}

// garbledOffers is for how many slots twoFaces has two faces under one offer.
const garbledOffers = 3

// twoFaces tells owners different things: first it gives half of them other bytes than it has
// offered, then it offers one thing to half of the members and another one to the others.
func twoFaces(l *liar) {
	garbled := 0
	l.offers(func(slotNumber uint64, c *allreduce.Contribution) {
		if garbled++; garbled > garbledOffers {
			return
		}
		for f := 0; f < len(c.Leaves()); f += 2 {
			c.Bytes()[uint64(f)*4*l.rules.Frame] ^= 1
		}
		l.did("slot %d: every other frame is not what it has offered", slotNumber)
	})
	l.says = func(_ slot.PeerID, m wire.Message) bool {
		o, is := m.Body.(wire.Offer)
		if !is || garbled <= garbledOffers {
			return true
		}
		others := l.others()
		half := len(others) / 2
		l.say(o, others[half:]...)
		o.Root[0] ^= 1
		l.say(o, others[:half]...)
		l.did("slot %d: two offers", o.Slot)
		return false
	}
}

package hostile

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// spoils makes a kind that offers other values than it has trained, with hashes and norms that fit.
// spoil returns false if it has none yet.
func spoils(spoil func(l *liar, slotNumber uint64, x []float32) bool) func(*liar) habit {
	return func(l *liar) habit {
		return habit{offers: func(slotNumber uint64, c *allreduce.Contribution) {
			x := Values(c)
			if spoil(l, slotNumber, x) {
				Commit(c, x)
				l.did("slot %d: it offers other values", slotNumber)
			}
		}}
	}
}

// scales offers a multiple of what it has trained.
func scales(by float32) func(*liar) habit {
	return spoils(func(_ *liar, _ uint64, x []float32) bool {
		scale(x, by)
		return true
	})
}

const noiseLength = 100 // times that of what it replaces

// noise offers what has nothing to do with the data.
func noise(l *liar, slotNumber uint64, x []float32) bool {
	draw, sum := rand.New(rand.NewPCG(slotNumber, uint64(l.self[len(l.self)-1]))), 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	size := noiseLength * math.Sqrt(sum/float64(len(x)))
	for i := range x {
		x[i] = float32(size * draw.NormFloat64())
	}
	return true
}

// replay offers to each slot what it has offered to the first slot of the attack that was of the
// same fragment.
func replay(l *liar) habit {
	first := map[uint32][]float32{}
	return spoils(func(l *liar, slotNumber uint64, x []float32) bool {
		fragment := l.rules.Fragment(slotNumber)
		if first[fragment] == nil {
			first[fragment] = slices.Clone(x)
			return false
		}
		return copy(x, first[fragment]) > 0
	})(l)
}

// guesses makes a kind that offers what lies beside the mean of the honest ones. Unless it knows
// what they have offered, it has only a guess: what it has trained itself in the slots of the
// attack is as good a sample of what others train as it can have before it must offer. of is given
// mean and standard deviation.
func guesses(of func(mean, sd float64) float64) func(*liar) habit {
	return func(l *liar) habit {
		var own [][]float32
		return spoils(func(l *liar, slotNumber uint64, x []float32) bool {
			own = append(own, slices.Clone(x))
			samples := own
			if l.Others != nil {
				samples = l.Others(slotNumber)
			}
			samples = slices.DeleteFunc(slices.Clone(samples), func(s []float32) bool { return len(s) != len(x) })
			if len(samples) < 2 { // of one nothing is known
				return false
			}
			for i := range x {
				sum, squares, n := 0.0, 0.0, float64(len(samples))
				for _, s := range samples {
					v := float64(s[i])
					sum, squares = sum+v, squares+v*v
				}
				mean := sum / n
				x[i] = float32(of(mean, math.Sqrt(max(0, squares/n-mean*mean))))
			}
			return true
		})(l)
	}
}

// little is "a little is enough" (Baruch et al. 2019).
func little(mean, sd float64) float64 { return mean - 1.5*sd }

// innerProduct is inner product manipulation (Xie et al. 2020).
func innerProduct(mean, _ float64) float64 { return -mean / 2 }

const shared = "shared" // "shared-SLOT": what the first of the twins has offered to a slot

// twin offers what an honest peer has, or else is one of several that train once: whichever is done
// first leaves its values in the folder that they share, and the others offer the same.
func twin(l *liar, slotNumber uint64, x []float32) bool {
	if l.Others != nil {
		return copy(x, slices.Concat(l.Others(slotNumber)...)) == len(x)
	}
	name := filepath.Join(l.Folder, fmt.Sprintf("%s-%d", shared, slotNumber))
	own := fmt.Sprintf("%s-%s", name, l.self)
	if os.WriteFile(own, bytesOf(x), 0o600) != nil {
		return false
	}
	if os.Link(own, name) == nil { // it is the first
		return false
	}
	b, err := os.ReadFile(name)
	if err != nil || len(b) != 4*len(x) {
		return false
	}
	copy(x, floatsOf(b))
	return true
}

// claimed is the weight that overweight claims.
const claimed = 1 << 50

// falseTotal offers a norm that is not that of its frames together: one frame has another norm
// until the offer is on its way.
func falseTotal(l *liar) habit {
	var changed *slot.FrameLeaf
	restore := func() {
		if changed != nil {
			changed.NormSq /= 2
			changed = nil
		}
	}
	return habit{
		offers: func(slotNumber uint64, c *allreduce.Contribution) {
			restore()
			changed = &c.Leaves()[0]
			changed.NormSq *= 2
			l.did("slot %d: an offer with a false norm", slotNumber)
		},
		says: func(_ slot.PeerID, m wire.Message) bool {
			if _, is := m.Body.(wire.Offer); is {
				restore()
			}
			return true
		},
	}
}

func overweight(l *liar) habit {
	return habit{claims: func(slotNumber, _ uint64) uint64 {
		l.did("slot %d: it claims a weight of %d", slotNumber, uint64(claimed))
		return claimed
	}}
}

// garbledOffers is for how many slots twoFaces has two faces under one offer.
const garbledOffers = 3

// twoFaces tells owners different things: first it gives half of them other bytes than it has
// offered, then it offers one thing to half of the members and another one to the others.
func twoFaces(l *liar) habit {
	first := uint64(0)
	later := func(slotNumber uint64) bool {
		if first == 0 {
			first = slotNumber
		}
		return slotNumber >= first+garbledOffers
	}
	return habit{
		offers: func(slotNumber uint64, c *allreduce.Contribution) {
			if later(slotNumber) {
				return
			}
			for f := 0; f < len(c.Leaves()); f += 2 {
				c.Bytes()[f*frameBytes(c)] ^= 1
			}
			l.did("slot %d: every other frame is not what it has offered", slotNumber)
		},
		says: func(_ slot.PeerID, m wire.Message) bool {
			o, is := m.Body.(wire.Offer)
			if !is || !later(o.Slot) {
				return true
			}
			others := slices.DeleteFunc(l.driver.View().Peers(), func(p slot.PeerID) bool { return p == l.self })
			half := others[:len(others)/2]
			l.say(o, others[len(others)/2:]...)
			o.Root[0] ^= 1
			l.say(o, half...)
			l.did("slot %d: two offers", o.Slot)
			return false
		},
	}
}

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
func spoils(what string, spoil func(l *liar, slotNumber uint64, x []float32) bool) func(*liar) habit {
	return func(l *liar) habit {
		return habit{offers: func(slotNumber uint64, c *allreduce.Contribution) {
			x := Values(c)
			if spoil(l, slotNumber, x) {
				Commit(c, x)
				l.did("slot %d: it offers %s", slotNumber, what)
			}
		}}
	}
}

// scales offers a multiple of what it has trained.
func scales(by float32) func(*liar) habit {
	return spoils(fmt.Sprintf("%g times its values", by), func(_ *liar, _ uint64, x []float32) bool {
		scale(x, by)
		return true
	})
}

const noiseLength = 100 // times that of what it replaces

// noise offers what has nothing to do with the data.
func noise(_ *liar, slotNumber uint64, x []float32) bool {
	draw, sum := rand.New(rand.NewPCG(slotNumber, 0x6e_6f_69_73_65)), 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	size := noiseLength * math.Sqrt(sum/float64(len(x)))
	for i := range x {
		x[i] = float32(size * draw.NormFloat64())
	}
	return true
}

// replay offers in each slot what it has offered to the first slot of the attack.
func replay(l *liar) habit {
	var first []float32
	return spoils("its first contribution again", func(_ *liar, _ uint64, x []float32) bool {
		if first == nil {
			first = slices.Clone(x)
			return false
		}
		return copy(x, first) > 0
	})(l)
}

// guesses makes a kind that offers what lies beside the mean of the honest ones, of which it has
// only a guess: what it has trained itself in the slots of the attack is as good a sample of what
// others train as it can have before it must offer. of is given mean and standard deviation.
func guesses(what string, of func(mean, sd float64) float64) func(*liar) habit {
	return func(l *liar) habit {
		var seen float64
		var sum, squares []float64
		return spoils(what, func(_ *liar, _ uint64, x []float32) bool {
			if len(sum) != len(x) {
				seen, sum, squares = 0, make([]float64, len(x)), make([]float64, len(x))
			}
			seen++
			for i, v := range x {
				sum[i], squares[i] = sum[i]+float64(v), squares[i]+float64(v)*float64(v)
				mean := sum[i] / seen
				x[i] = float32(of(mean, math.Sqrt(max(0, squares[i]/seen-mean*mean))))
			}
			return seen > 1 // of one sample nothing is known
		})(l)
	}
}

// little is "a little is enough" (Baruch et al. 2019).
func little(mean, sd float64) float64 { return mean - 1.5*sd }

// innerProduct is inner product manipulation (Xie et al. 2020).
func innerProduct(mean, _ float64) float64 { return -mean / 2 }

const shared = "shared" // "shared-SLOT": what the first of the twins has offered to a slot

// twin is one of several peers that train once: whichever is done first leaves its values in the
// folder that they share, and the others offer the same.
func twin(l *liar, slotNumber uint64, x []float32) bool {
	name := filepath.Join(l.folder, fmt.Sprintf("%s-%d", shared, slotNumber))
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

package allreduce

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// Peers die one after the other, at random frames, one or two of seven at a time; revisions reach
// the living in any order, so that some send to heirs that do not know of it yet. Whatever the
// order, the survivors end with one outcome, and it is the reference's.
func TestRandomDeaths(t *testing.T) {
	seeds := uint64(8)
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) { randomDeaths(t, deathParams(7), rand.New(rand.NewPCG(seed, 9))) })
	}
}

func randomDeaths(t *testing.T, p Params, rng *rand.Rand) {
	t.Helper()
	m := newMortalOf(t, p, 7)
	for i := range m.engines {
		m.engines[i].cfg.Logger = quietLogger
	}
	order := rng.Perm(7)[:1+rng.IntN(4)]
	m.dieAfter(order[0], rng.IntN(120))
	m.startAll()
	m.mourn(order[0])
	for next := 0; next < len(order); {
		some := order[next:min(len(order), next+1+rng.IntN(2))]
		for _, v := range some {
			m.kill(v)
		}
		m.revise(some...)
		m.tell(rng)
		next += len(some)
	}
	m.wait()
	m.check()
	m.group.close()
}

// tell starts the newest plan on all the living at once, in any order.
func (m *mortal) tell(rng *rand.Rand) {
	living := slices.DeleteFunc(rng.Perm(len(m.engines)), func(i int) bool { return slices.Contains(m.gone, i) })
	running := make([]*Reduction, len(living))
	var all sync.WaitGroup
	for k, i := range living {
		all.Go(func() {
			r, err := m.engines[i].Start(m.t.Context(), m.plan, m.own[i], m.sinks[i])
			if err != nil {
				m.t.Error(err)
			}
			running[k] = r
		})
	}
	all.Wait()
	m.running = running
}

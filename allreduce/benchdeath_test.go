//go:build unix

package allreduce

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkDeath reduces 16 MiB among 8 peers over TCP on loopback, once undisturbed and once with
// a peer that dies half way and is left out of the plan as soon as a survivor names it. ms/quiet
// and ms/death are the times until all survivors are complete, bytes/ratio is what the survivors
// send with the death over what they send without: at most 1 + 2/N is due.
func BenchmarkDeath(b *testing.B) {
	const n, elements, victim = 8, 4 << 20, 3
	var quiet, death time.Duration
	var without, with uint64
	for b.Loop() {
		took, bytes, frames := deathRun(b, n, elements, victim, 0)
		quiet, without = quiet+took, without+bytes
		took, bytes, _ = deathRun(b, n, elements, victim, frames/2)
		death, with = death+took, with+bytes
	}
	b.ReportMetric(float64(quiet.Milliseconds())/float64(b.N), "ms/quiet")
	b.ReportMetric(float64(death.Milliseconds())/float64(b.N), "ms/death")
	b.ReportMetric(float64(with)/float64(without), "bytes/ratio")
	b.ReportMetric(1+2.0/n, "bytes/most")
	b.ReportMetric(0, "ns/op")
}

// deathRun is one reduction; the victim dies after so many frames, never if 0. It says what the
// others sent, and how many frames passed at the victim.
func deathRun(b *testing.B, n, elements, victim, after int) (took time.Duration, bytes uint64, frames int) {
	p := testParams(elements, 1<<16)
	p.Aggregator, p.Clip = TrimmedMean, true
	m := &mortal{group: newGroup(b, p, n, rand.New(rand.NewPCG(1, 1)))}
	for _, e := range m.engines {
		e.cfg.Logger = quietLogger
		e.hearsay = 20 * time.Millisecond
	}
	m.useTCP()
	losses := m.listen()
	var passed atomic.Int32
	var once sync.Once
	m.sinks[victim].progress = func() {
		if int(passed.Add(1)) >= after && after > 0 {
			once.Do(func() { m.deaths.Go(func() { m.kill(victim) }) })
		}
	}
	began := time.Now()
	m.startAll()
	if after > 0 {
		for l := range losses {
			if l == peerName(victim) {
				break
			}
		}
		m.bury(victim)
	} else {
		m.wait()
		m.gone = []int{victim} // what it sent does not count here either
	}
	m.wait()
	took = time.Since(began)
	m.deaths.Wait()
	m.group.close()
	return took, m.sent(), int(passed.Load())
}

package allreduce

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkReduce reduces 64 MiB among 4 peers in one process. wire/ideal is the bytes a peer
// sends, all headers and hashes included, over 2(N-1)/N of its vector; a trimmed mean's ring
// carries up to 2k+1 lanes. `p2plab bench allreduce` has processes and links.
func BenchmarkReduce(b *testing.B) {
	const n, elements = 4, 16 << 20
	for _, a := range []Aggregator{Mean, TrimmedMean} {
		for _, ring := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/ring=%v", a, ring), func(b *testing.B) {
				p := testParams(elements, 1<<18)
				p.Aggregator, p.Clip = a, a != Mean
				g := newGroup(b, p, n, time.Minute, rand.New(rand.NewPCG(1, 1)))
				if ring {
					g.plan.Ring = []uint16{0, 1, 2, 3}
				}
				g.size = 4 << 20
				b.SetBytes(4 * elements)
				b.ReportAllocs()
				var sent uint64
				slots := 0
				for b.Loop() {
					g.start(g.rest()...)
					for _, r := range g.running {
						<-r.Complete()
						r.Release()
					}
					sent += g.sent()
					g.plan.Height++
					g.plan.Opened.Height++
					slots++
				}
				b.ReportMetric(float64(sent)/float64(slots)/(2*(n-1)*4*elements), "wire/ideal")
			})
		}
	}
}

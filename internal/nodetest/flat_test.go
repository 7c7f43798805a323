package nodetest

import (
	"bytes"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

// usage is what the process uses once garbage is collected.
type usage struct {
	heap       uint64 // bytes
	goroutines int
}

// measure counts no goroutine of a dial: peers that are gone are dialled as long as the DHT lists
// them, and how many just then is chance.
func measure() (u usage) {
	time.Sleep(3 * time.Minute) // gossip remembers messages for 2 minutes
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what finalizers let go
	runtime.ReadMemStats(&m)
	u.heap = m.HeapAlloc
	var stacks bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&stacks, 2) // a buffer takes everything
	for stack := range strings.SplitSeq(stacks.String(), "\n\n") {
		if !strings.Contains(stack, "ial") && !strings.Contains(stack, "runQuery") {
			u.goroutines++
		}
	}
	return u
}

// Peers come to two that stay and go again, half of them without a word, and neither heap nor
// goroutines grow: for each visit by less than half the parameters, and by no goroutine. The
// trainers that stay stand still while it is measured.
//
// It is not parallel: what it measures is the whole process.
func TestMemoryAndGoroutinesAreFlat(t *testing.T) {
	if !testutil.Nightly() {
		t.Skip("for .ci/nightly: it takes 20 seconds")
	}
	const visits, warm, elements = 30, 10, 200_000
	spec := Spec(1000, 2)
	RunOver(t, sim.NewMemory, spec, 0, func(s *Swarm) {
		come := func() *Peer {
			p := s.Add()
			b := p.Trainer.(*Bowl)
			b.Size, b.Pace, p.Hooks = elements, 100*time.Millisecond, slowTiming
			if len(s.Peers) <= 2 { // what the test keeps of its events would grow
				p.Config = func(c *p2pdiloco.Config) { c.OnEvent = nil }
			}
			s.Start(p)
			return p
		}
		come()
		come()
		stay := s.Peers
		still := func(on bool) {
			for _, p := range stay {
				p.Trainer.(*Bowl).Frozen.Store(on)
			}
		}
		var first usage
		for visit := range visits {
			still(false)
			p := come()
			s.Until(time.Minute, "a member", func() bool { return s.ContributedAfter(p, 0) })
			if visit%2 == 0 {
				s.Isolate(p)
			}
			s.Stop(p)
			s.Until(time.Minute, "gone", func() bool { return len(stay[0].Node.Load().Status().Members) == 2 })
			s.Net.Close(p.Host)
			s.Peers, s.Net.Hosts[p.Host] = stay, s.Net.Hosts[0] // nothing holds its memory
			if visit == warm {
				still(true)
				first = measure()
			}
		}
		still(true)
		last := measure()
		if last.goroutines > first.goroutines+(visits-warm)/2 || last.heap > first.heap+(visits-warm)*2*elements {
			t.Errorf("after %d visits %+v, after %d %+v", warm, first, visits, last)
		}
	})
}

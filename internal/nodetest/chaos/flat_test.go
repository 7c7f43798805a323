package chaos

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/testlevel"
)

// usage is what the process uses once garbage is collected.
type usage struct {
	heap       uint64 // bytes
	goroutines int
}

func measure() usage {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what finalizers let go
	runtime.ReadMemStats(&m)
	return usage{m.HeapAlloc, goroutines()}
}

// goroutines counts those that are not about a dial: peers that are gone are dialled as long as the
// DHT lists them, at most 16 at once, and how many just then is chance. The simulated links are no
// peer's.
func goroutines() (n int) {
	var stacks bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1) // a buffer takes everything
	for block := range strings.SplitSeq(stacks.String(), "\n\n") {
		chance := slices.ContainsFunc([]string{
			"activeDial", "dialWorker", "doDial", "sendQueue", "crypto/tls",
			"marcopolo/simnet",
		}, func(s string) bool {
			return strings.Contains(block, s)
		})
		for line := range strings.Lines(block) {
			var alike int
			if _, err := fmt.Sscanf(line, "%d @ ", &alike); err == nil && !chance {
				n += alike
			}
		}
	}
	return n
}

// Over hundreds of slots in which a peer goes and another one comes every 20, neither heap nor
// goroutines grow. Only the chain may grow: every peer has its newest 100 to 200 records in memory,
// and of the older ones those that changed who votes. Peers that come after slot 150 or so start
// from a summary.
//
// It is not parallel: what it measures is the whole process.
func TestMemoryAndGoroutinesAreFlat(t *testing.T) {
	if !testlevel.Nightly() {
		t.Skip("for .ci/nightly: it takes ten seconds")
	}
	const (
		staying       = 2 // all the time; as many come and go
		living, every = 2 * staying, 20
		// of one record on one peer, with its certificate and all that is kept of it
		recordBytes = 2 << 10
		// what is under way, and gossipsub remembers messages for 2 minutes
		heapMargin      = 6 << 20
		goroutineMargin = 40 // the same
	)
	from, last := uint64(100), testlevel.Choose(240, 240, 500)
	if nodetest.Raced { // its own memory, of stacks, ends a longer simulation with a SIGSEGV
		from, last = 60, 120
	}
	spec := nodetest.Spec(uint64(last), 2)
	spec.InnerSteps = 4
	hosts := living + last/every
	nodetest.RunNow(t, 5*time.Millisecond, spec, 0, func(s *nodetest.Swarm) {
		audit := newAudit(s)
		arrive := func() {
			p := s.Add()
			p.Forgetful, p.Main, p.Trainer.(*nodetest.Bowl).Pace = true, nodetest.Stay, 50*time.Millisecond
			p.Hooks = slowTiming
			s.Start(p)
		}
		for range living {
			arrive()
		}
		var first usage
		for next := living; next < hosts; next++ {
			at := uint64((next - living + 1) * every)
			s.Until(5*time.Minute, "at the next change", func() bool { return newestSlot(s) >= at })
			audit.all()
			if at == from {
				first = rest()
			}
			old := s.Peers[staying+next-living]
			if next%3 == 0 {
				s.Kill(old)
			} else {
				nodetest.LeaveNow(s, old)
			}
			s.Net.Close(old.Host)
			delete(audit.seen, old)
			// the process is gone
			old.Network, old.Main, old.Trainer, s.Net.Hosts[old.Host] = nil, nil, nil, nil
			if at < uint64(last) {
				arrive()
			}
		}
		end := rest()
		t.Logf("slot %d: %+v; slot %d: %+v; %d records", from, first, last, end, len(audit.records))
		if end.goroutines > first.goroutines+goroutineMargin {
			t.Errorf("%d goroutines at slot %d, %d at slot %d", first.goroutines, from, end.goroutines, last)
		}
		chain := uint64(len(audit.records) * living * recordBytes)
		if end.heap > first.heap+chain+heapMargin {
			t.Errorf("%d bytes of heap at slot %d, %d at slot %d: %d more than the chain explains", first.heap, from,
				end.heap, last, end.heap-first.heap-chain)
		}
	})
}

// newestSlot is the newest that any living peer has applied.
func newestSlot(s *nodetest.Swarm) (newest uint64) {
	for _, p := range s.Peers {
		if l := p.Ledger(); l != nil {
			newest = max(newest, l.View().AppliedSlot)
		}
	}
	return newest
}

// rest lets what is under way end, and measures.
func rest() usage {
	time.Sleep(50 * time.Millisecond)
	return measure()
}

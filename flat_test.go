package p2pdiloco

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"
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

// goroutines counts those that are not about a dial: peers that are gone are dialled as long as the DHT lists them, at most 16 at
// once, and how many just then is chance. The simulated links are no peer's.
func goroutines() (n int) {
	var stacks bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1) // a buffer takes everything
	for block := range strings.SplitSeq(stacks.String(), "\n\n") {
		chance := slices.ContainsFunc([]string{"activeDial", "dialWorker", "doDial", "sendQueue", "crypto/tls", "marcopolo/simnet"}, func(s string) bool {
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

// Over 500 slots in which a peer goes and another one comes every 20, neither heap nor goroutines grow. What may grow is the chain:
// its records stay in memory on every peer, some 600 bytes each with so few members.
//
// It is not parallel: what it measures is the whole process.
func TestMemoryAndGoroutinesAreFlat(t *testing.T) {
	const (
		staying         = 2 // all the time; as many come and go
		living, every   = 2 * staying, 20
		recordBytes     = 2 << 10 // of one record on one peer, with its certificate and all that is kept of it
		heapMargin      = 6 << 20 // what is under way, and gossipsub remembers messages for 2 minutes
		goroutineMargin = 40      // the same
	)
	from, last := uint64(100), 500
	if raced { // its own memory, of stacks, ends a longer simulation with a SIGSEGV
		from, last = 60, 120
	}
	spec := simSpec(uint64(last), 2)
	spec.InnerSteps = 4
	hosts := living + last/every
	inSimNow(t, 5*time.Millisecond, spec, 0, func(s *swarm) {
		audit := newAudit(s)
		arrive := func() {
			p := s.add()
			p.forgetful, p.drive, p.trainer.(*bowl).pace = true, stay, 50*time.Millisecond
			p.config = func(c *Config) { c.Preset = presetChaos }
			s.start(p)
		}
		for range living {
			arrive()
		}
		var first usage
		for next := living; next < hosts; next++ {
			at := uint64((next - living + 1) * every)
			s.until(5*time.Minute, "at the next change", func() bool { return s.slot() >= at })
			audit.all()
			if at == from {
				first = s.rest()
			}
			old := s.peers[staying+next-living]
			if next%3 == 0 {
				s.kill(old)
			} else {
				leaveNow(s, old)
			}
			s.net.Close(old.host)
			delete(audit.seen, old)
			old.network, old.drive, old.trainer, s.net.Hosts[old.host] = nil, nil, nil, nil // the process is gone
			if at < uint64(last) {
				arrive()
			}
		}
		end := s.rest()
		t.Logf("slot %d: %+v; slot %d: %+v; %d records", from, first, last, end, len(audit.records))
		if end.goroutines > first.goroutines+goroutineMargin {
			t.Errorf("%d goroutines at slot %d, %d at slot %d", first.goroutines, from, end.goroutines, last)
		}
		chain := uint64(len(audit.records) * living * recordBytes)
		if end.heap > first.heap+chain+heapMargin {
			t.Errorf("%d bytes of heap at slot %d, %d at slot %d: %d more than the chain explains", first.heap, from, end.heap, last, end.heap-first.heap-chain)
		}
	})
}

// slot is the newest that any living peer has applied.
func (s *swarm) slot() (newest uint64) {
	for _, p := range s.peers {
		if n := p.node.Load(); n != nil {
			newest = max(newest, n.driver.View().AppliedSlot)
		}
	}
	return newest
}

// rest lets what is under way end, and measures.
func (s *swarm) rest() usage {
	time.Sleep(50 * time.Millisecond)
	return measure()
}

// leaveNow ends a peer's process by Leave.
func leaveNow(s *swarm, p *simPeer) {
	n := p.node.Swap(nil)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := n.Leave(ctx); err != nil {
		s.t.Errorf("host %d: Leave: %v", p.host, err)
	}
	s.stop(p)
}

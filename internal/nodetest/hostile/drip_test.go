package hostile

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/node/edge"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// drip is a stream that passes some bytes out and from then on one at a time, which is life and no
// progress.
type drip struct {
	wire.Stream
	left *int
	each time.Duration
}

func (d drip) Write(b []byte) (int, error) {
	if *d.left > 0 {
		n, err := d.Stream.Write(b[:min(len(b), *d.left)])
		*d.left -= n
		return n, err
	}
	time.Sleep(d.each)
	return d.Stream.Write(b[:1])
}

// stall is the time after which preset lan gives up a stream that carries nothing.
const stall = 4 * time.Second

// wanStall is that of preset wan.
const wanStall = 6 * time.Second

// drips makes a peer drip on streams for which on holds, after so many bytes.
func drips(p *nodetest.Peer, after int, on func(protocol string, opened bool) bool) {
	p.Hooks = func(h *edge.Hooks) {
		h.Streams = func(protocol string, opened bool, s wire.Stream) wire.Stream {
			if !on(protocol, opened) {
				return s
			}
			left := after
			return drip{s, &left, stall * 3 / 4}
		}
	}
}

// A member that drips keeps no slot from ending: neither as a contributor, nor as an owner that
// states what it reduced and gives nobody the bytes, there or anywhere else. The others go on with
// what came of it, and without the rest; nobody else is named.
func TestAMemberThatDripsStopsNothing(t *testing.T) {
	for name, on := range map[string]func(protocol string, opened bool) bool{
		"contributor": func(protocol string, opened bool) bool { return opened && protocol == p2p.ProtocolExchange },
		"owner":       func(_ string, opened bool) bool { return !opened },
	} {
		t.Run(name, func(t *testing.T) {
			nodetest.Once(t, 2, 4, func(s *nodetest.Swarm) {
				bad := s.Peers[2]
				drips(bad, 6000, on)
				for _, p := range s.Peers {
					p.Trainer.(*nodetest.Bowl).Size = 30_000
				}
				s.Start(s.Peers...)
				s.Reach(2, s.But(bad)...)
				for _, p := range s.But(bad) {
					for _, e := range p.Events("peer.suspected") {
						if e.Fields["about"] != s.ID(bad) {
							t.Errorf("host %d suspects an honest peer: %v", p.Host, e.Fields)
						}
					}
					if got := s.Contributions(p); len(got) != 2 {
						t.Errorf("host %d contributed to slots %v, want both", p.Host, got)
					}
				}
			})
		})
	}
}

// An owner states what it reduced, and gives it to one of the other electors alone. So no quorum of
// electors has all bytes by the reduction, and nobody else has to be late for it. Those that get
// hardly anything fetch its part from the one that has it, long before they have waited as for an
// honest owner, and name it. Each slot took some 38 s.
func TestAnOwnerThatWithholdsFromSomeStopsNothing(t *testing.T) {
	const slots = 4
	nodetest.Once(t, slots, 4, func(s *nodetest.Swarm) {
		bad := s.Peers[2]
		bad.Hooks = func(h *edge.Hooks) {
			accepted := 0
			h.Streams = func(protocol string, opened bool, st wire.Stream) wire.Stream {
				if opened || protocol == p2p.ProtocolAudit {
					return st
				}
				if accepted++; protocol == p2p.ProtocolExchange && accepted%3 == 0 {
					return st
				}
				left := 200
				return drip{st, &left, stall * 3 / 4}
			}
		}
		for _, p := range s.Peers {
			p.Trainer.(*nodetest.Bowl).Size = 30_000
		}
		began := time.Now()
		s.Start(s.Peers...)
		s.Reach(slots, s.But(bad)...)
		if took := time.Since(began); took > slots*2*stall {
			t.Errorf("%d slots took %v", slots, took)
		}
		named := 0
		for _, p := range s.But(bad) {
			for _, e := range slices.Concat(p.Events("donor.dropped"), p.Events("peer.suspected")) {
				if e.Fields["about"] != s.ID(bad) {
					t.Errorf("host %d names an honest peer: %v", p.Host, e.Fields)
				}
				named++
			}
		}
		if named == 0 {
			t.Error("nobody names the owner")
		}
	})
}

// roughen makes noise of what was trained, which no compression makes small. The state to begin
// with stays small: a peer that fetches it is early enough for the first slot.
func roughen(task p2pdiloco.Task, x []float32) {
	noise := rand.New(rand.NewPCG(task.Slot, 5))
	for i := range x {
		x[i] += noise.Float32()
	}
}

// A member on a link ten times slower than the others' counts in every slot, though each waits for
// it for many stall limits.
func TestAMemberOnASlowLinkCounts(t *testing.T) {
	nodetest.RunOver(t, sim.New, nodetest.Spec(2, 4), 0, func(s *nodetest.Swarm) {
		for i := range 4 {
			s.Net.Rate = 5_000_000
			if i == 2 {
				s.Net.Rate /= 10
			}
			p := s.Add()
			// a link that is full may be silent for longer than preset lan waits for a sign of life
			p.Preset = p2pdiloco.PresetWAN
			// 2 MB: 3 MB out of and into each
			p.Trainer = &nodetest.Bowl{
				Target: float32(p.Host),
				Pace:   10 * time.Millisecond,
				Size:   500_000,
				Spoil:  roughen,
			}
		}
		began := time.Now()
		s.Start(s.Peers...)
		s.Finish(time.Hour, s.Peers...)
		if took := time.Since(began); took < 2*8*wanStall {
			t.Fatalf("two slots took %v: too short to show anything", took)
		}
		for _, p := range s.Peers {
			if got := s.Contributions(p); !slices.Equal(got, []uint64{1, 2}) {
				t.Errorf("host %d contributed to slots %v, want both", p.Host, got)
			}
			l := slices.Concat(p.Events("peer.suspected"), p.Events("donor.dropped"))
			// an auditor's question may wait behind a segment: it is late, and nothing comes of it
			l = slices.DeleteFunc(l, func(e p2pdiloco.Event) bool { return e.Fields["reason"] == "unshown" })
			if len(l) > 0 {
				t.Errorf("host %d names %v", p.Host, l)
			}
		}
	})
}

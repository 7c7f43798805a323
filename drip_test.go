package p2pdiloco

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// drip is a stream that passes some bytes out and from then on one at a time, which is life and no progress.
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

// drips makes a peer drip on streams for which on holds, after so many bytes.
func drips(p *simPeer, after int, on func(protocol string, opened bool) bool) {
	p.config = func(c *Config) {
		c.streams = func(protocol string, opened bool, s wire.Stream) wire.Stream {
			if !on(protocol, opened) {
				return s
			}
			left := after
			return drip{s, &left, presets[PresetLAN].stall * 3 / 4}
		}
	}
}

// A member that drips keeps no slot from ending: neither as a contributor, nor as an owner that states what it reduced and gives nobody
// the bytes, there or anywhere else. The others go on with what came of it, and without the rest; nobody else is named.
func TestAMemberThatDripsStopsNothing(t *testing.T) {
	for name, on := range map[string]func(protocol string, opened bool) bool{
		"contributor": func(protocol string, opened bool) bool { return opened && protocol == p2p.ProtocolExchange },
		"owner":       func(_ string, opened bool) bool { return !opened },
	} {
		t.Run(name, func(t *testing.T) {
			inSim(t, 10*time.Millisecond, simSpec(2, 4), 4, func(s *swarm) {
				bad := s.peers[2]
				drips(bad, 6000, on)
				for _, p := range s.peers {
					p.trainer.(*bowl).size = 30_000
				}
				s.start(s.peers...)
				s.reach(2, s.but(bad)...)
				for _, p := range s.but(bad) {
					for _, e := range p.events("peer.suspected") {
						if e.Fields["about"] != s.id(bad) {
							t.Errorf("host %d suspects an honest peer: %v", p.host, e.Fields)
						}
					}
					if got := s.contributions(p); len(got) != 2 {
						t.Errorf("host %d contributed to slots %v, want both", p.host, got)
					}
				}
			})
		})
	}
}

// roughen makes noise of what was trained, which no compression makes small. The state to begin with stays small: who fetches it is early enough
// for the first slot.
func roughen(task Task, x []float32) {
	noise := rand.New(rand.NewPCG(task.Slot, 5))
	for i := range x {
		x[i] += noise.Float32()
	}
}

// A member on a link ten times slower than the others' counts in every slot, though each waits for it for many stall limits.
func TestAMemberOnASlowLinkCounts(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(2, 4), 0, func(s *swarm) {
		for i := range 4 {
			s.net.Rate = 20_000_000
			if i == 2 {
				s.net.Rate /= 10
			}
			p := s.add()
			p.trainer = &bowl{target: float32(p.host), pace: 10 * time.Millisecond, size: 2_000_000, spoil: roughen} // 8 MB: 12 MB out of and into each
		}
		began := time.Now()
		s.start(s.peers...)
		s.finish(time.Hour, s.peers...)
		if took := time.Since(began); took < 2*8*presets[PresetLAN].stall {
			t.Fatalf("two slots took %v: too short to show anything", took)
		}
		for _, p := range s.peers {
			if got := s.contributions(p); !slices.Equal(got, []uint64{1, 2}) {
				t.Errorf("host %d contributed to slots %v, want both", p.host, got)
			}
			if l := p.events("peer.suspected"); len(l) > 0 {
				t.Errorf("host %d suspects %v", p.host, l)
			}
		}
	})
}

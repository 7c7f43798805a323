package hostile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// found counts, by finding, the members that a peer was told of, but for findings by figures.
func found(p *nodetest.Peer) map[string][]p2pdiloco.PeerID {
	all := map[string][]p2pdiloco.PeerID{}
	for _, e := range p.Events("peer.stands_out") {
		switch kind := e.Fields["finding"].(string); kind {
		case "zeros", "same_bytes", "sent_again", "capped":
			all[kind] = append(all[kind], e.Fields["about"].(p2pdiloco.PeerID))
		}
	}
	return all
}

// checkConduct says whether everybody, the bad peer too, was told of such a finding about the
// members named, and of no other finding.
func checkConduct(t *testing.T, s *nodetest.Swarm, kind string, about ...*nodetest.Peer) {
	t.Helper()
	want := map[p2pdiloco.PeerID]bool{}
	for _, p := range about {
		want[s.ID(p)] = true
	}
	for _, p := range s.Peers {
		got := found(p)
		for found, members := range got {
			for _, m := range members {
				if found != kind || !want[m] {
					t.Errorf("host %d was told %s of %s", p.Host, found, m.Short())
				}
			}
		}
		if len(got[kind]) < len(about) {
			t.Errorf("host %d was told %s of %d members, want %d", p.Host, kind, len(got[kind]), len(about))
		}
	}
}

// claimer is a trainer that claims more tokens than it has trained on; 0: as many as there are.
type claimer struct {
	nodetest.Bowl
	claims uint64
	anchor []float32 // the newest
}

func (c *claimer) Load(ctx context.Context, anchor []float32) error {
	c.anchor = append(c.anchor[:0], anchor...)
	return c.Bowl.Load(ctx, anchor)
}

func (c *claimer) Train(ctx context.Context, task p2pdiloco.Task) (p2pdiloco.Stats, error) {
	stats, err := c.Bowl.Train(ctx, task)
	if c.claims > 0 {
		stats.Tokens = c.claims
	}
	return stats, err
}

// claims has each peer claim as many tokens as are given by its place.
func claims(s *nodetest.Swarm, tokens ...uint64) {
	for i, p := range s.Peers {
		p.Trainer = &claimer{
			Bowl: nodetest.Bowl{Target: float32(p.Host), Pace: 10 * time.Millisecond}, claims: tokens[i],
		}
	}
}

// lastAnchor is the model from which peers with these claims train for the last slot. Its last bits
// depend on the order of the peers' random IDs.
func lastAnchor(t *testing.T, tokens ...uint64) (last []float32) {
	t.Helper()
	t.Run(fmt.Sprint(tokens), func(t *testing.T) {
		spec := nodetest.Spec(6, 5)
		spec.Aggregator, spec.MaxWeight = "mean", 1<<55
		nodetest.RunNow(t, 10*time.Millisecond, spec, 5, func(s *nodetest.Swarm) {
			claims(s, tokens...)
			s.Start(s.Peers...)
			liar := slices.IndexFunc(tokens, func(n uint64) bool { return n > 1<<40 })
			if liar >= 0 {
				s.Reach(4, s.Peers...)
				want := "weight capped: it claims 1125899906842624 and counts as 160, 8 times the median"
				for _, p := range s.Peers {
					got := s.Member(p, s.Peers[liar]).StandsOut
					if !slices.ContainsFunc(got, func(f p2pdiloco.Finding) bool { return f.Words == want }) {
						t.Errorf("host %d says %v of the liar, want %q", p.Host, got, want)
					}
				}
			}
			s.Finish(5*time.Minute, s.Peers...)
			checkHonest(t, s)
			if liar < 0 {
				checkConduct(t, s, "none")
			} else {
				checkConduct(t, s, "capped", s.Peers[liar])
			}
			for _, p := range s.Peers {
				if f := p.Events("slot.stats")[5].Fields; f["weight"].(uint64) > 5*160 {
					t.Errorf("host %d: the claims weigh %v", p.Host, f["weight"])
				}
			}
			last = s.Peers[0].Trainer.(*claimer).anchor
		})
	})
	return last
}

// apart is how far two models are from each other: the greatest distance of two parameters.
func apart(a, b []float32) (most float32) {
	for i := range a {
		most = max(most, a[i]-b[i], b[i]-a[i])
	}
	return most
}

// One peer claims 2^50 tokens. The mean moves as if it had claimed eight times the median, in each
// slot from the first on, and everybody's status says whose weight was capped, and from what. Peers
// of one to eight times the usual weight count whole.
func TestAClaimOfAHugeWeight(t *testing.T) {
	capped, as := lastAnchor(t, 20, 20, 1<<50, 20, 20), lastAnchor(t, 20, 20, 160, 20, 20)
	if apart(capped, as) > 1e-4 {
		t.Error("a claim of 2^50 does not count as eight times the usual weight")
	}
	if whole, less := lastAnchor(t, 20, 40, 160, 20, 20), lastAnchor(t, 20, 40, 80, 20, 20); apart(whole, less) < 1e-2 {
		t.Error("eight times the usual weight does not count whole")
	}
}

// A peer that sends zeros from the first slot on gets no credit and no seat, and the model is as
// without it.
func TestAFreeRider(t *testing.T) {
	var models [][]float32
	for _, rides := range []bool{false, true} {
		t.Run(fmt.Sprint("free rider: ", rides), func(t *testing.T) {
			spec := nodetest.Spec(16, 5)
			nodetest.RunNow(t, 10*time.Millisecond, spec, 5, func(s *nodetest.Swarm) {
				founders := s.Peers
				claims(s, 0, 0, 0, 0, 0)
				s.Start(founders...)
				if rides {
					s.Reach(1, founders...)
					rider := s.Add()
					spoils(func(_ uint64, x []float32) { clear(x) })(s, rider)
					rider.Trainer.(*spoiler).always = true
					s.Start(rider)
					s.Reach(15, founders...)
					for _, p := range founders {
						m := s.Member(p, rider)
						if m.Seat != 0 || m.Credit != 0 || len(m.StandsOut) != 1 ||
							!strings.HasPrefix(m.StandsOut[0].Words, "sends nothing") {
							t.Errorf("host %d: seat %d, credit %d, %v", p.Host, m.Seat, m.Credit, m.StandsOut)
						}
					}
				}
				s.Finish(5*time.Minute, founders...)
				models = append(models, founders[0].Trainer.(*claimer).anchor)
				if !rides {
					return
				}
				if rider := s.Peers[5]; len(s.Contributions(rider)) < 5 {
					t.Errorf("the rider contributed to slots %v alone", s.Contributions(rider))
				}
			})
		})
	}
	if len(models) < 2 || apart(models[0], models[1]) > 1e-4 {
		t.Error("a peer that sends zeros moves the model")
	}
}

// The same in other modes: the free rider earns nothing and is named, and nobody else is.
func TestAFreeRiderInOtherModes(t *testing.T) {
	inOtherModes(t, func(s *nodetest.Swarm) {
		rider := s.Peers[2]
		rider.Trainer = &frozen{layered{nodetest.Bowl{Pace: 10 * time.Millisecond}}}
		s.Start(s.Peers...)
		s.Reach(6, s.Peers...)
		for _, p := range s.Peers {
			// of 32 that each of the first ones has, one a slot is gone
			if m := s.Member(p, rider); m.Credit > 32-5 {
				t.Errorf("host %d: the rider has credit %d", p.Host, m.Credit)
			}
		}
		s.Finish(5*time.Minute, s.Peers...)
		checkConduct(t, s, "zeros", rider)
	})
}

// frozen is a layered bowl that does not train.
type frozen struct{ layered }

func (f *frozen) Train(ctx context.Context, task p2pdiloco.Task) (p2pdiloco.Stats, error) {
	before := slices.Clone(f.X)
	stats, err := f.layered.Train(ctx, task)
	copy(f.X, before)
	return stats, err
}

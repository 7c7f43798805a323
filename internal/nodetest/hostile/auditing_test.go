package hostile

import (
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/node/auditor"
	"github.com/p2pdiloco/p2pdiloco/internal/node/testhooks"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// answers is an accepted stream whose answers are changed; nil: there are none.
type answers struct {
	wire.Stream
	change func(b []byte) []byte
}

func (a answers) Write(b []byte) (int, error) {
	if changed := a.change(append([]byte(nil), b...)); changed != nil {
		return a.Stream.Write(changed)
	}
	return len(b), nil
}

// Close leaves whoever waits for an answer that does not come waiting.
func (a answers) Close() error {
	if a.change(nil) == nil {
		return nil
	}
	return a.Stream.Close()
}

// A contributor that gives owners its bytes, and shows auditors nothing or other bytes, is left out
// of what they could not check. The run goes on, and nobody is evicted: that nobody was shown
// something is no proof.
func TestAContributorThatHidesFromAuditors(t *testing.T) {
	for name, change := range map[string]func(b []byte) []byte{
		"nothing": func([]byte) []byte { return nil },
		"other bytes": func(b []byte) []byte {
			for i := 4; i < len(b); i++ {
				b[i] ^= 0x55
			}
			return append([]byte{}, b...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			const from = 3 // slot
			nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(6, 5), 5, func(s *nodetest.Swarm) {
				bad := s.Peers[2]
				bad.Hooks = func(h *testhooks.Hooks) {
					h.Streams = func(protocol string, opened bool, st wire.Stream) wire.Stream {
						if opened || protocol != p2p.ProtocolAudit || bad.Applied() < from {
							return st
						}
						return answers{st, change}
					}
				}
				s.Start(s.Peers...)
				s.Finish(5*time.Minute, s.But(bad)...)
				if s.ContributedAfter(bad, from+1) {
					t.Errorf("what it does not show counts in slots %v", s.Contributions(bad))
				}
				checkHonest(t, s, bad)
				checkEvicted(t, s, bad, 0)
				if !slices.ContainsFunc(s.But(bad), func(p *nodetest.Peer) bool { return names(s, p, bad) }) {
					t.Error("no leader names it")
				}
			})
		})
	}
}

// names says whether a peer suspects one that hides, and nobody else.
func names(s *nodetest.Swarm, p, bad *nodetest.Peer) bool {
	l := p.Events("peer.suspected")
	return len(l) > 0 && !slices.ContainsFunc(l, func(e p2pdiloco.Event) bool {
		return e.Fields["about"] != s.ID(bad) || e.Fields["reason"] != "unshown"
	})
}

// checkHonest says whether all honest peers were members all the time, and contributed to each
// slot.
func checkHonest(t *testing.T, s *nodetest.Swarm, bad ...*nodetest.Peer) {
	t.Helper()
	for _, p := range s.But(bad...) {
		if got := s.Contributions(p); len(got) != int(s.Spec.LastSlot()) {
			t.Errorf("host %d contributed to slots %v alone", p.Host, got)
		}
	}
	checkNobodyOut(t, s, bad...)
}

// checkHonestBut is checkHonest for a peer that may leave others out of the slots that it leads
// itself: one elector of five, and a newcomer.
func checkHonestBut(t *testing.T, s *nodetest.Swarm, bad *nodetest.Peer) {
	t.Helper()
	for n := uint64(1); n <= s.Spec.LastSlot(); n++ {
		missing := slices.DeleteFunc(s.But(bad), func(p *nodetest.Peer) bool {
			return slices.Contains(s.Contributions(p), n)
		})
		if most := 2; len(missing) > 0 && (leader(bad, n) != s.ID(bad) || len(missing) > most) {
			t.Errorf("slot %d is without %d honest peers, such as host %d", n, len(missing), missing[0].Host)
		}
	}
	checkNobodyOut(t, s, bad)
}

// leader is the one whose plan of a slot a peer has seen last.
func leader(p *nodetest.Peer, n uint64) (l p2pdiloco.PeerID) {
	for _, e := range p.Events("slot.planned") {
		if e.Fields["slot"] == n {
			l = e.Fields["leader"].(p2pdiloco.PeerID)
		}
	}
	return l
}

// checkNobodyOut says whether no honest peer was evicted or seen to leave.
func checkNobodyOut(t *testing.T, s *nodetest.Swarm, bad ...*nodetest.Peer) {
	t.Helper()
	for _, p := range s.But(bad...) {
		for _, e := range append(p.Events("peer.evicted"), p.Events("peer.left")...) {
			about := e.Fields["about"].(p2pdiloco.PeerID)
			if honest(s, about, bad) && e.Fields["reason"] != "left" {
				t.Errorf("host %d: %s of an honest peer: %v", p.Host, e.Name, e.Fields)
			}
		}
	}
}

func honest(s *nodetest.Swarm, p p2pdiloco.PeerID, bad []*nodetest.Peer) bool {
	for _, b := range bad {
		if s.ID(b) == p {
			return false
		}
	}
	return true
}

// checkEvicted says whether each honest peer has evicted so many.
func checkEvicted(t *testing.T, s *nodetest.Swarm, bad *nodetest.Peer, want int) {
	t.Helper()
	for _, p := range s.But(bad) {
		if got := p.Events("peer.evicted"); len(got) != want {
			t.Errorf("host %d evicted %d peers, want %d: %v", p.Host, len(got), want, got)
		}
	}
}

// A contributor that commits to a norm that a frame does not have is convicted by the owner that
// reads the whole frame; one whose offer states another norm than those of the frames add up to is
// convicted by all owners.
func TestAContributorWithAFalseNorm(t *testing.T) {
	for name, lie := range map[string]func(c *allreduce.Contribution){
		"of a frame": func(c *allreduce.Contribution) {
			c.Leaves()[1].NormSq *= 2
			c.Recommit()
		},
		"of all": func(c *allreduce.Contribution) { // they are true again before anybody reads them
			c.Leaves()[1].NormSq *= 2
			time.AfterFunc(time.Millisecond, func() { c.Leaves()[1].NormSq /= 2 })
		},
	} {
		t.Run(name, func(t *testing.T) {
			nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(6, 5), 5, func(s *nodetest.Swarm) {
				bad := s.Peers[2]
				bad.Hooks = func(h *testhooks.Hooks) {
					h.Offer = func(slotNumber uint64, c *allreduce.Contribution) {
						if slotNumber > 3 {
							lie(c)
						}
					}
				}
				s.Start(s.Peers...)
				s.Finish(5*time.Minute, s.But(bad)...)
				checkHonest(t, s, bad)
				checkEvicted(t, s, bad, 1)
			})
		})
	}
}

// An auditor that asks everybody for what an honest contributor does not show has nobody left out
// of the slots that others lead.
func TestAnAuditorThatAsksForWhatIsNot(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(6, 5), 5, func(s *nodetest.Swarm) {
		bad, victim := s.Peers[2], s.Peers[0]
		var root atomic.Pointer[slot.Root]
		victim.Hooks = func(h *testhooks.Hooks) {
			h.Offer = func(_ uint64, c *allreduce.Contribution) {
				r := c.Root()
				root.Store(&r)
			}
		}
		bad.Hooks = func(h *testhooks.Hooks) {
			h.Streams = func(protocol string, opened bool, st wire.Stream) wire.Stream {
				if now := root.Load(); opened && protocol == p2p.ProtocolAudit && now != nil {
					return astray{st, s.ID(victim), *now}
				}
				return st
			}
		}
		s.Start(s.Peers...)
		s.Finish(5*time.Minute, s.Peers...)
		checkHonestBut(t, s, bad)
		checkEvicted(t, s, bad, 0)
	})
}

// astray asks, in the place of each request of an audit, for a victim's contribution, in a range
// that is none.
type astray struct {
	wire.Stream
	victim p2pdiloco.PeerID
	root   slot.Root
}

func (a astray) Write(b []byte) (int, error) {
	q, err := auditor.ReadRequest(b[4:])
	if err != nil || q.Contributor == a.victim {
		return a.Stream.Write(b)
	}
	q.Contributor, q.Root, q.Range.Begin = a.victim, a.root, q.Range.Begin+1
	return len(b), wire.WriteMessage(a.Stream, q.Append(nil))
}

// A leader that says of everybody that it is shown nothing leaves out no more than a leader may: no
// elector says HAVE to less, and the next leader plans anew.
func TestALeaderThatIsShownNothing(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(6, 5), 5, func(s *nodetest.Swarm) {
		bad := s.Peers[2]
		bad.Hooks = func(h *testhooks.Hooks) {
			h.Streams = func(protocol string, opened bool, st wire.Stream) wire.Stream {
				if opened && protocol == p2p.ProtocolAudit {
					return deaf{st}
				}
				return st
			}
		}
		s.Start(s.Peers...)
		s.Finish(5*time.Minute, s.Peers...)
		checkHonestBut(t, s, bad)
		checkEvicted(t, s, bad, 0)
	})
}

// deaf is a stream on which no answer is heard.
type deaf struct{ wire.Stream }

func (deaf) Read([]byte) (int, error) { return 0, io.EOF }

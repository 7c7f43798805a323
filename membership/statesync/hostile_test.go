package statesync

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

const hostileTimeout = 20 * time.Second // as in the preset wan

// dripping serves true bytes as slowly as no timeout forbids: something of a chunk or frame comes
// just before each one, and all of it before maxTimeouts of them.
func dripping(s *Server) func(wire.Stream) {
	return func(st wire.Stream) { s.Serve("client", &dripStream{st}) }
}

type dripStream struct{ wire.Stream }

func (d *dripStream) Write(b []byte) (int, error) {
	const least = 2000 // of a write that carries more than a list or hashes
	if len(b) < least {
		return d.Stream.Write(b)
	}
	part := len(b)/(maxTimeouts-1) + 1
	for i := 0; i < len(b); i += part {
		time.Sleep(hostileTimeout * 9 / 10)
		if _, err := d.Stream.Write(b[i:min(i+part, len(b))]); err != nil {
			return i, err
		}
	}
	return len(b), nil
}

// claiming lists states that it does not have.
func claiming(s *Server, claims []Target) func(wire.Stream) {
	var list []checkpoint.Checkpoint
	for _, t := range claims {
		list = append(list, checkpoint.Checkpoint{Height: t.Height, Slot: t.Slot, Root: t.Root, Size: testShape.Size()})
	}
	return func(st wire.Stream) {
		v := &claimStream{Stream: st}
		v.list = s.zip.appendBlock(nil, appendList(nil, list))
		s.Serve("client", v)
	}
}

// claimStream answers a request for the list by itself.
type claimStream struct {
	wire.Stream
	list  []byte
	asked bool
}

func (c *claimStream) Read(b []byte) (int, error) {
	n, err := c.Stream.Read(b)
	c.asked = n == requestSize && requestType(b[4]) == askList
	return n, err
}

func (c *claimStream) Write(b []byte) (int, error) {
	if !c.asked {
		return c.Stream.Write(b)
	}
	c.asked = false
	_, err := c.Stream.Write(c.list)
	return len(b), err
}

// inOrder makes a Config.Rand with which peers are asked in the order in which they are listed.
func inOrder() func() uint64 {
	n := uint64(0)
	return func() uint64 { n++; return n }
}

// Honest peers have a checkpoint of some rounds only. Peers that make one of the newest round were
// the only source of what everybody took, and could drip it: a fetch of 3 MB took 20 minutes, one
// of 1 GB more than a day.
func TestStatesOfAFewLiarsAreNotTaken(t *testing.T) {
	for name, liars := range map[string]int{"one": 1, "three": 3} {
		bubble(t, name, func(t *testing.T) {
			good, bad := newStore(t, testShape), newStore(t, testShape)
			want := []Target{put(t, good, 4), put(t, good, 8), put(t, bad, 11)}
			put(t, bad, 4) // so that more hold the older one
			n := &peers{serve: serves{}}
			for i := range 4 {
				n.serve[slot.PeerID(fmt.Sprint("good", i))] = source(t, good, free)
			}
			for i := range liars {
				n.serve[slot.PeerID(fmt.Sprint("bad", i))] = dripping(server(t, bad, free))
			}
			got, report := fetch(t, n, Config{Timeout: hostileTimeout}, want, n.ids)
			if got.Height != 8 || report.Elapsed > time.Second {
				t.Fatalf("fetched the state of height %d in %v", got.Height, report.Elapsed)
			}
		})
	}
}

// Each state that a peer lied about cost 10 s: with the 64 that a list can name, more than ten
// minutes without a byte.
func TestStatesThatNobodyHasCostNoTime(t *testing.T) {
	for name, with := range map[string]bool{"beside an honest peer": true, "alone": false} {
		bubble(t, name, func(t *testing.T) {
			good := newStore(t, testShape)
			honestly := put(t, good, 4)
			var claims []Target
			for h := range uint64(40) {
				claims = append(claims, Target{Height: 10 + h, Slot: 10 + h, Root: slot.Root{byte(h + 1)}})
			}
			n := &peers{serve: serves{
				"bad": claiming(server(t, newStore(t, testShape), free), claims),
			}}
			want := append(slices.Clone(claims), honestly)
			if with {
				n.serve["good"] = source(t, good, free)
				if _, report := fetch(t, n, Config{}, want, n.ids); report.Elapsed > time.Second {
					t.Fatalf("took %v", report.Elapsed)
				}
				return
			}
			_, report, err := n.tryState(t, want...)
			if _, named := badOf(report, "bad"); err == nil || !named || report.Elapsed > patience+time.Second {
				t.Fatalf("after %v: %v, %+v", report.Elapsed, err, report.Bad)
			}
		})
	}
}

// One peer against one: nobody can tell which of them lies. The one that drips the newer state, or
// the one that was begun, held up a fetch for as long as it liked.
func TestADrippedStateGivesWayToAnother(t *testing.T) {
	for name, begun := range map[string]bool{"new": false, "begun": true} {
		bubble(t, name, func(t *testing.T) {
			good, bad, store := newStore(t, testShape), newStore(t, testShape), newStore(t, testShape)
			want := []Target{put(t, good, 8), put(t, bad, 11)}
			v := server(t, bad, slow)
			n := &peers{serve: serves{"bad": honest(v)}}
			if begun {
				part(t, n, store, want, testShape.Size()/4)
			}
			n.serve = serves{
				"bad": dripping(v), "good": source(t, good, free),
			}
			if begun {
				n.serve["other"] = source(t, good, free)
			}
			got, report, err := NewClient(n, Config{Timeout: hostileTimeout}).FetchState(
				t.Context(), store, want, n.ids, nil)
			n.wg.Wait()
			if err != nil || got.Height != 8 || report.Elapsed > 15*time.Second {
				t.Fatalf("fetched the state of height %d in %v: %v", got.Height, report.Elapsed, err)
			}
		})
	}
}

// sharedLink is a network behind one slow link: all that peers send takes turns on it.
type sharedLink struct {
	turn      chan struct{} // a mutex would stop the clock of the test
	perSecond int
}

func newSharedLink(perSecond int) *sharedLink { return &sharedLink{make(chan struct{}, 1), perSecond} }

type linkStream struct {
	wire.Stream
	link *sharedLink
}

func (s *linkStream) Write(b []byte) (n int, err error) {
	for len(b) > 0 && err == nil {
		part := b[:min(len(b), 1000)]
		s.link.turn <- struct{}{}
		time.Sleep(time.Duration(len(part)) * time.Second / time.Duration(s.link.perSecond))
		<-s.link.turn
		var k int
		k, err = s.Stream.Write(part)
		n, b = n+k, b[len(part):]
	}
	return n, err
}

// A peer whose own link is slow gets nothing sooner from others: it goes on with what it has
// begun. If it went from one state to the next it would never have any.
func TestASlowLinkIsNoReasonToGiveUpAState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		newer, older := newStore(t, testShape), newStore(t, testShape)
		want := []Target{put(t, older, 8), put(t, newer, 11)}
		link, slices := newSharedLink(20_000), slow
		over := func(v *Server) func(wire.Stream) {
			return func(st wire.Stream) { v.Serve("client", &linkStream{st, link}) }
		}
		n := &peers{serve: serves{
			"a": over(server(t, newer, slices)), "b": over(server(t, older, slices)),
		}}
		got, report := fetch(t, n, Config{Timeout: hostileTimeout}, want, n.ids)
		if got.Height != 11 || report.Elapsed < 2*time.Minute || len(report.Bad) > 0 {
			t.Fatalf("fetched the state of height %d in %v: %+v", got.Height, report.Elapsed, report.Bad)
		}
	})
}

// full is a network where the peers that are asked first, as many as have a place, drip.
func full(t *testing.T, s *checkpoint.Store) *peers {
	t.Helper()
	n := &peers{serve: serves{}}
	for i := range maxDonors + 2 {
		n.serve[slot.PeerID(fmt.Sprintf("a%02d", i))] = dripping(server(t, s, free))
	}
	for i := range 3 {
		n.serve[slot.PeerID(fmt.Sprintf("b%02d", i))] = source(t, s, free)
	}
	return n
}

// As many peers as have a place, whose IDs came first, kept all honest donors out of a fetch.
func TestSlowDonorsGiveTheirPlacesToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, want := keeping(t, 9)
		blobs, data := putOutcome(t, s, outcomeSizes...)
		n := full(t, s)
		_, report := fetch(t, n, Config{Timeout: hostileTimeout, Rand: inOrder()}, []Target{want}, n.ids)
		if report.Elapsed > 40*time.Second {
			t.Errorf("the state took %v", report.Elapsed)
		}
		got, report, err := n.outcome(t, Config{Timeout: hostileTimeout, Rand: inOrder()}, blobs...)
		if err != nil || report.Elapsed > 40*time.Second || !bytes.Equal(got[0], data[0]) {
			t.Errorf("the outcome took %v: %v", report.Elapsed, err)
		}
	})
}

// Where this peer's own link makes all donors slow, most of them keep their places until they have
// given what they began: all of them together come to an end although others wait.
func TestSlowDonorsKeepTheirPlacesOnASlowLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, want := keeping(t, 9)
		link := newSharedLink(50_000)
		n := &peers{serve: serves{}}
		v := server(t, s, slow)
		for i := range 400 {
			p := slot.PeerID(fmt.Sprint(i))
			n.serve[p] = func(st wire.Stream) { v.Serve(p, &linkStream{st, link}) }
		}
		_, report := fetch(t, n, Config{Timeout: hostileTimeout}, []Target{want}, n.ids)
		ideal := time.Duration(report.Bytes) * time.Second / time.Duration(link.perSecond)
		if report.Elapsed > 3*ideal {
			t.Fatalf("took %v, the link alone can do it in %v", report.Elapsed, ideal)
		}
	})
}

// One piece with one donor after the other that drips it: the second one had it until its timeout,
// though others were idle.
func TestAPieceIsRescuedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, testShape)
		blobs, data := putOutcome(t, s, 100_000)
		for good := range 5 {
			n := &peers{serve: serves{}}
			for i := range 5 {
				n.serve[slot.PeerID(fmt.Sprint(i))] = dripping(server(t, s, free))
			}
			n.serve[slot.PeerID(fmt.Sprint(good))] = source(t, s, free)
			got, report, err := n.outcome(t, Config{Timeout: hostileTimeout, Rand: inOrder()}, blobs...)
			if err != nil || report.Elapsed > 5*2*slowPiece || !bytes.Equal(got[0], data[0]) {
				t.Fatalf("with the honest peer as number %d it took %v: %v", good, report.Elapsed, err)
			}
		}
	})
}

// Peers were asked in the order of their IDs, which anybody can choose.
func TestNoIDComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, want := keeping(t, 9)
		n := &peers{serve: serves{}}
		for i := range 3 * maxDonors {
			n.serve[slot.PeerID(fmt.Sprintf("%02d", i))] = source(t, s, slow)
		}
		asked := map[slot.PeerID]bool{}
		for range 5 {
			_, report := fetch(t, n, Config{}, []Target{want}, n.ids)
			for p := range report.Sources {
				asked[p] = true
			}
		}
		if len(asked) < 2*maxDonors {
			t.Fatalf("in five fetches only %d of %d peers gave something", len(asked), len(n.serve))
		}
	})
}

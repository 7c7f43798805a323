package p2p

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/dial"
)

// foursome are members, of which the first two cannot connect. The others reach everybody.
type foursome struct {
	net  *sim.Net
	all  []*Network
	from atomic.Pointer[slot.PeerID] // whom the second has last had a stream of
}

// between runs f with a foursome: the second answers a stream with all that came on it.
func between(t *testing.T, f func(t *testing.T, s *foursome)) {
	t.Helper()
	betweenBut(t, -1, f)
}

// betweenBut has one of them forward nothing.
func betweenBut(t *testing.T, unwilling int, f func(t *testing.T, s *foursome)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &foursome{net: sim.NewMemory(t, 4, 10*time.Millisecond)}
		var ids []slot.PeerID
		for i := range 4 {
			cfg := LAN()
			cfg.NoForwarding = i == unwilling
			s.all = append(s.all, simulated(t, s.net, i, cfg))
			ids = append(ids, s.all[i].ID())
		}
		said := map[slot.PeerID][]slot.PeerID{ids[0]: ids[2:], ids[1]: ids[2:], ids[2]: ids, ids[3]: ids}
		for i, n := range s.all {
			n.Protect(ids)
			n.SetReaches(func() map[slot.PeerID][]slot.PeerID { return said })
			for j := range i {
				n.Host().Peerstore().AddAddrs(peer.ID(ids[j]), s.net.Info(j).Addrs, time.Hour)
				s.all[j].Host().Peerstore().AddAddrs(peer.ID(ids[i]), s.net.Info(i).Addrs, time.Hour)
			}
		}
		s.net.Cut(0, 1)
		for i := range 4 {
			for j := range i {
				if j != 0 || i != 1 {
					s.net.Connect(i, j)
				}
			}
		}
		s.all[1].Handle(ProtocolExchange, func(from slot.PeerID, st wire.Stream) {
			s.from.Store(&from)
			b, err := io.ReadAll(st)
			if err != nil {
				_ = st.Reset()
				return
			}
			_, _ = st.Write(b)
		})
		time.Sleep(time.Second)
		f(t, s)
	})
}

// echoed sends b to the second, ends the direction, and returns what comes back.
func (s *foursome) echoed(ctx context.Context, by *Network, b []byte) ([]byte, error) {
	st, err := by.OpenBulk(ctx, s.all[1].ID(), ProtocolExchange)
	if err != nil {
		return nil, err
	}
	defer st.Reset() //nolint:errcheck // all was read
	if _, err := st.Write(b); err != nil {
		return nil, err
	}
	if err := st.CloseWrite(); err != nil {
		return nil, err
	}
	return io.ReadAll(st)
}

func vector() []byte { return slices.Repeat([]byte("all that a segment holds "), 50_000) }

// TestAStreamGoesThroughAThirdMember: both ends see each other, whole, and only the first stream
// waits for a connection.
func TestAStreamGoesThroughAThirdMember(t *testing.T) {
	between(t, func(t *testing.T, s *foursome) {
		for i := range 8 {
			began := time.Now()
			got, err := s.echoed(t.Context(), s.all[0], vector())
			took := time.Since(began)
			if err != nil || !slices.Equal(got, vector()) {
				t.Fatalf("stream %d: %d bytes of %d, %v", i, len(got), len(vector()), err)
			}
			if from := *s.from.Load(); from != s.all[0].ID() {
				t.Errorf("stream %d: it is said to be of %s", i, from.Short())
			}
			if most := headStart + time.Second; took > most {
				t.Errorf("stream %d took %v, at most %v is due", i, took, most)
			}
			time.Sleep(20 * time.Second) // the dials in between come to nothing
			if began := time.Now(); i > 0 {
				if _, err := s.all[0].Open(t.Context(), s.all[1].ID(), ProtocolHello); !errors.Is(err, dial.ErrApart) ||
					time.Since(began) > 0 {
					t.Errorf("after %d streams one that is not forwarded fails after %v: %v", i, time.Since(began), err)
				}
			}
		}
		if connected(s.all[0], s.all[1]) {
			t.Error("they are connected: nothing was tested")
		}
		s.net.Heal(0, 1)
		s.all[0].Open(t.Context(), s.all[1].ID(), ProtocolHello) //nolint:errcheck // has it dialled again
		time.Sleep(20 * time.Second)
		if !connected(s.all[0], s.all[1]) {
			t.Error("not connected once the link was whole")
		}
	})
}

// TestAForwarderThatDies: the stream ends with an error on both sides, and the next one takes
// another way.
func TestAForwarderThatDies(t *testing.T) {
	between(t, func(t *testing.T, s *foursome) {
		first := s.all[0].hops.Ways(peer.ID(s.all[1].ID()))[0]
		st, err := s.all[0].OpenBulk(t.Context(), s.all[1].ID(), ProtocolExchange)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := st.Write(vector()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		for _, n := range s.all[2:] {
			if n.env.Host.ID() == first {
				n.unhandle(ProtocolForward)
				if err := n.env.Host.Network().Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = st.SetReadDeadline(time.Now().Add(time.Minute))
		if b, err := io.ReadAll(st); err == nil || wire.TimedOut(err) {
			t.Errorf("a stream whose forwarder died gave %d bytes and %v", len(b), err)
		}
		if got, err := s.echoed(t.Context(), s.all[0], vector()); err != nil || !slices.Equal(got, vector()) {
			t.Errorf("the next stream: %d bytes, %v", len(got), err)
		}
	})
}

// TestNobodyElseIsServed: strangers, to strangers, beyond one hop, and under another's name.
func TestNobodyElseIsServed(t *testing.T) {
	between(t, func(t *testing.T, s *foursome) {
		origin, target, via := s.all[0], s.all[1], s.all[2]
		header := func(leg byte, id slot.PeerID) []byte {
			b := wire.AppendBytes([]byte{leg}, id)
			return append(wire.AppendU32(nil, uint32(len(b))), b...)
		}
		// refused sends what a member or a stranger may send to a peer, and says whether it ends.
		refused := func(by, to *Network, b []byte) bool {
			ctx := network.WithNoDial(t.Context(), "test")
			st, err := by.env.Host.NewStream(ctx, peer.ID(to.ID()), protocol.ID(ProtocolForward))
			if err != nil {
				return true
			}
			defer st.Reset() //nolint:errcheck // the test is over
			if _, err := st.Write(b); err != nil {
				return true
			}
			_ = st.SetReadDeadline(time.Now().Add(time.Second))
			n, err := st.Read(make([]byte, 1))
			return n == 0 && !wire.TimedOut(err)
		}
		if refused(origin, via, header(1, target.ID())) {
			t.Fatal("a member is refused: nothing is tested")
		}
		if !refused(origin, via, header(1, origin.ID())) || !refused(origin, via, header(1, via.ID())) {
			t.Error("a stream to its origin, or to its forwarder, is carried")
		}
		if !refused(via, target, header(1, origin.ID())) {
			t.Error("a stream to a member that is not connected is carried")
		}
		if !refused(via, target, append(header(2, origin.ID()), "no handshake at all"...)) {
			t.Error("a stream without a handshake is taken")
		}
		via.Protect([]slot.PeerID{origin.ID(), via.ID()})
		if !refused(origin, via, header(1, target.ID())) {
			t.Error("a stream to a stranger is carried")
		}
		via.Protect([]slot.PeerID{target.ID(), via.ID()})
		if !refused(origin, via, header(1, target.ID())) {
			t.Error("a stranger's stream is carried")
		}
		target.Protect([]slot.PeerID{origin.ID()})
		if !refused(via, target, header(2, origin.ID())) {
			t.Error("a stream is taken of a forwarder that is no member")
		}
		if s.from.Load() != nil {
			t.Errorf("a stream of %s was handled", s.from.Load().Short())
		}
	})
}

// lying makes the forwarders do as they please with what comes from the origin.
func (s *foursome) lying(t *testing.T, leg func(via *Network, target peer.ID) []byte, change func([]byte)) {
	for _, via := range s.all[2:] {
		via.Handle(ProtocolForward, func(_ slot.PeerID, in wire.Stream) {
			b, err := wire.ReadMessage(in, 100)
			if err != nil {
				return
			}
			r := wire.NewReader(b[1:])
			target := peer.ID(r.Bytes(100))
			out, err := via.openLeg(t.Context(), target)
			if err != nil {
				t.Error(err)
				return
			}
			defer out.Reset() //nolint:errcheck // the test is over
			if wire.WriteMessage(out, leg(via, target)) != nil {
				return
			}
			go func() { _, _ = io.Copy(in, out); _ = in.CloseWrite() }()
			for room := make([]byte, 4096); ; {
				n, err := in.Read(room)
				change(room[:n])
				if _, werr := out.Write(room[:n]); werr != nil || err != nil {
					_ = out.CloseWrite()
					break
				}
			}
			time.Sleep(time.Minute)
		})
	}
}

// TestAForwarderThatChangesBytes: not one of them is taken for the origin's.
func TestAForwarderThatChangesBytes(t *testing.T) {
	between(t, func(t *testing.T, s *foursome) {
		var came atomic.Int64
		s.all[1].Handle(ProtocolExchange, func(_ slot.PeerID, st wire.Stream) {
			b, err := io.ReadAll(st)
			if came.Add(int64(len(b))); err == nil {
				t.Error("changed bytes came to a good end")
			}
			if !bytes.HasPrefix(vector(), b) {
				t.Error("other bytes came than were sent")
			}
			_ = st.Reset()
		})
		var passed atomic.Int64 // of all forwarders
		s.lying(t, func(*Network, peer.ID) []byte {
			return wire.AppendBytes([]byte{2}, s.all[0].ID())
		}, func(b []byte) {
			if passed.Add(int64(len(b))) > 100_000 && len(b) > 0 {
				b[len(b)/2] ^= 1
			}
		})
		if got, err := s.echoed(t.Context(), s.all[0], vector()); err == nil {
			t.Errorf("%d bytes came back as if nothing had happened", len(got))
		}
		time.Sleep(time.Minute)
		if came.Load() == 0 {
			t.Error("nothing came before the change: nothing was tested")
		}
	})
}

// TestAForwarderSpeaksForNobody: it names another member than the one whose stream it carries.
func TestAForwarderSpeaksForNobody(t *testing.T) {
	between(t, func(t *testing.T, s *foursome) {
		s.lying(t, func(via *Network, _ peer.ID) []byte {
			other := s.all[2]
			if via == other {
				other = s.all[3]
			}
			return wire.AppendBytes([]byte{2}, other.ID())
		}, func([]byte) {})
		if _, err := s.echoed(t.Context(), s.all[0], []byte("who am I?")); err == nil || s.from.Load() != nil {
			t.Errorf("a stream was handled under another name: %v", err)
		}
	})
}

// TestAnOriginThatIsNoMemberForTheTarget: the target has a list of its own.
func TestAnOriginThatIsNoMemberForTheTarget(t *testing.T) {
	between(t, func(t *testing.T, s *foursome) {
		s.all[1].Protect([]slot.PeerID{s.all[2].ID(), s.all[3].ID()})
		if _, err := s.echoed(t.Context(), s.all[0], []byte("let me in")); err == nil || s.from.Load() != nil {
			t.Errorf("a stream of a stranger was handled: %v", err)
		}
	})
}

// TestAForwarderThatWillNot: the other one does it.
func TestAForwarderThatWillNot(t *testing.T) {
	for _, i := range []int{2, 3} {
		betweenBut(t, i, func(t *testing.T, s *foursome) {
			began := time.Now()
			got, err := s.echoed(t.Context(), s.all[0], vector())
			if err != nil || !bytes.Equal(got, vector()) || time.Since(began) > headStart+time.Second {
				t.Errorf("%d bytes after %v: %v", len(got), time.Since(began), err)
			}
			if most := s.all[i].Traffic().Exchange.Received; most > 1<<10 {
				t.Errorf("a peer that forwards nothing got %d bytes", most)
			}
		})
	}
}

// TestNotAllIsForwarded: only so many streams of a pair at once.
func TestNotAllIsForwarded(t *testing.T) {
	between(t, func(t *testing.T, s *foursome) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		open := 0
		for range 100 {
			st, err := s.all[0].OpenBulk(ctx, s.all[1].ID(), ProtocolExchange)
			if err != nil {
				break
			}
			defer st.Reset() //nolint:errcheck // the test is over
			open++
		}
		if open < 16 || open > 2*16 {
			t.Errorf("%d streams are forwarded at once, by two members", open)
		}
	})
}

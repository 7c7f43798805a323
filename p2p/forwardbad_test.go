package p2p

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// first is the forwarder that the first asks first for a stream to the second.
func (s *foursome) first() *Network {
	want := s.all[0].hops.Ways(peer.ID(s.all[1].ID()))[0]
	for _, n := range s.all {
		if n.env.Host.ID() == want {
			return n
		}
	}
	return nil
}

// TestABadForwarderCostsOneWait: whatever the one that is asked first does, the next one carries
// the stream, and from then on it is asked first.
func TestABadForwarderCostsOneWait(t *testing.T) {
	for name, bad := range map[string]func(slot.PeerID, wire.Stream){
		"it drops streams": func(_ slot.PeerID, s wire.Stream) { _ = s.Reset() },
		"it ends streams":  func(_ slot.PeerID, s wire.Stream) { _ = s.Close() },
		"it says nothing":  func(_ slot.PeerID, s wire.Stream) { _, _ = io.Copy(io.Discard, s) },
		"it reads nothing": func(slot.PeerID, wire.Stream) { time.Sleep(time.Minute) },
		"it echoes":        func(_ slot.PeerID, s wire.Stream) { _, _ = io.Copy(s, s) },
		"it floods": func(_ slot.PeerID, s wire.Stream) {
			for room := make([]byte, 64<<10); ; time.Sleep(time.Millisecond) {
				if _, err := s.Write(room); err != nil {
					return
				}
			}
		},
		"it sends byte by byte": func(_ slot.PeerID, s wire.Stream) {
			for record := []byte{22, 3, 3, 64, 0}; ; time.Sleep(time.Second) {
				if _, err := s.Write(record[:1]); err != nil {
					return
				}
				record = append(record[1:], 0)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			between(t, func(t *testing.T, s *foursome) {
				s.first().Handle(ProtocolForward, bad)
				for i, most := range []time.Duration{headStart + 7*time.Second, 2 * time.Second, 2 * time.Second} {
					began := time.Now()
					got, err := s.echoed(t.Context(), s.all[0], vector())
					took := time.Since(began)
					if err != nil || !bytes.Equal(got, vector()) || took > most {
						t.Errorf("stream %d: %d bytes of %d after %v: %v", i, len(got), len(vector()), took, err)
					}
					time.Sleep(5 * time.Second)
				}
			})
		})
	}
}

// stalling is a leg of a forwarder that carries so many bytes, and then nothing.
type stalling struct {
	wire.Stream
	left int
}

func (s *stalling) Read(b []byte) (int, error) {
	if s.left <= 0 {
		time.Sleep(time.Minute)
		return 0, io.ErrUnexpectedEOF
	}
	n, err := s.Stream.Read(b[:min(len(b), s.left)])
	s.left -= n
	return n, err
}

// TestAForwarderThatStalls: it carries the handshake, and nothing of what follows. The stream runs
// out of time, while it is read or written, and from then on another forwarder carries the rest.
// With no look at that, such a member would cut off for good the pairs that ask it first.
func TestAForwarderThatStalls(t *testing.T) {
	for name, use := range map[string]func(st wire.Stream) error{
		"an answer is waited for": func(st wire.Stream) error {
			_, err := st.Write([]byte("a question"))
			if err == nil {
				_, err = st.Read(make([]byte, 1))
			}
			return err
		},
		"much is sent": func(st wire.Stream) (err error) {
			for sent := 0; err == nil && sent < 64<<20; sent += len(vector()) {
				_, err = st.Write(vector())
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			between(t, func(t *testing.T, s *foursome) {
				bad := s.first()
				bad.Handle(ProtocolForward, func(from slot.PeerID, st wire.Stream) {
					bad.hops.Answer(from, &stalling{Stream: st, left: 4 << 10})
				})
				st, err := s.all[0].OpenBulk(t.Context(), s.all[1].ID(), ProtocolExchange)
				if err != nil {
					t.Fatal(err)
				}
				defer st.Reset() //nolint:errcheck // the test is over
				_ = st.SetDeadline(time.Now().Add(5 * time.Second))
				if err := use(st); !wire.TimedOut(err) {
					t.Fatalf("the stream does not stall: %v", err)
				}
				for i := range 3 {
					began := time.Now()
					got, err := s.echoed(t.Context(), s.all[0], vector())
					if took := time.Since(began); err != nil || !bytes.Equal(got, vector()) || took > 2*time.Second {
						t.Errorf("stream %d after it: %d bytes after %v: %v", i, len(got), took, err)
					}
				}
			})
		})
	}
}

// TestAnOriginThatFloods: it cannot have more carried than its share, and others are carried
// meanwhile. A stream on which nothing moves ends.
func TestAnOriginThatFloods(t *testing.T) {
	between(t, func(t *testing.T, s *foursome) {
		via, target := s.all[2], s.all[1].ID()
		ctx := network.WithNoDial(t.Context(), "test")
		// carried opens as many as it can, and leaves them open
		carried := func() (open int) {
			for range 100 {
				st, err := s.all[0].env.Host.NewStream(ctx, peer.ID(via.ID()), protocol.ID(ProtocolForward))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = st.Reset() })
				b := wire.AppendBytes([]byte{1}, target)
				if _, err := st.Write(append(wire.AppendU32(nil, uint32(len(b))), b...)); err != nil {
					continue
				}
				_ = st.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
				if _, err := st.Read(make([]byte, 1)); wire.TimedOut(err) {
					open++
				}
			}
			return open
		}
		if open := carried(); open < 8 || open > 16 {
			t.Errorf("one member carries %d streams of a pair", open)
		}
		back, err := s.all[1].hops.Open(t.Context(), peer.ID(s.all[0].ID()), protocol.ID(ProtocolExchange))
		if err != nil {
			t.Errorf("the other direction is not carried meanwhile: %v", err)
		} else {
			_ = back.Reset()
		}
		time.Sleep(3 * time.Minute) // nothing comes on any of them
		if carried() < 8 {
			t.Error("streams without a byte are carried for minutes")
		}
	})
}

// TestATargetThatTakesNothing: the forwarder does not keep what is sent to it.
func TestATargetThatTakesNothing(t *testing.T) {
	between(t, func(t *testing.T, s *foursome) {
		s.all[1].Handle(ProtocolExchange, func(_ slot.PeerID, _ wire.Stream) { time.Sleep(time.Hour) })
		st, err := s.all[0].OpenBulk(t.Context(), s.all[1].ID(), ProtocolExchange)
		if err != nil {
			t.Fatal(err)
		}
		defer st.Reset() //nolint:errcheck // the test is over
		_ = st.SetWriteDeadline(time.Now().Add(10 * time.Second))
		sent := 0
		for err == nil && sent < 64<<20 {
			var n int
			n, err = st.Write(vector())
			sent += n
		}
		if err == nil {
			t.Errorf("%d bytes were taken for a target that reads none", sent)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := s.all[0].OpenBulk(ctx, s.all[1].ID(), ProtocolExchange); err != nil {
			t.Errorf("the next stream: %v", err)
		}
	})
}

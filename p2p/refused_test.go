package p2p

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/multiformats/go-multistream"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
)

// A peer of an earlier release opens streams of protocols that are gone: to ask which process is
// behind a connection, and to say that its older connections are dead. It is refused within two
// round trips, in the way that it takes for no answer, and waits for nothing.
func TestProtocolsThatAreGoneAreRefusedAtOnce(t *testing.T) {
	const latency = 10 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 2, latency)
		n := simulated(t, s, 1, LAN())
		old, id := s.Hosts[0], peer.ID(n.ID())
		s.Connect(0, 1)
		time.Sleep(time.Minute) // until it is known what the other one speaks
		for what, open := range map[string]func() error{
			"twin": func() error { // as it did on each of several connections
				s, err := old.Network().ConnsToPeer(id)[0].NewStream(t.Context())
				if err != nil {
					return err
				}
				defer s.Reset() //nolint:errcheck // nothing is wanted of it
				return multistream.SelectProtoOrFail(protocol.ID("/p2pdiloco/twin/1.0.0"), s)
			},
			"moved": func() error {
				_, err := old.NewStream(network.WithNoDial(t.Context(), "moved"), id, "/p2pdiloco/moved/1.0.0")
				return err
			},
		} {
			began := time.Now()
			err := open()
			if !errors.Is(err, multistream.ErrNotSupported[protocol.ID]{}) {
				t.Errorf("%s: %v", what, err)
			}
			if took := time.Since(began); took > 4*latency+time.Millisecond {
				t.Errorf("%s: the refusal took %s", what, took)
			}
		}
	})
}

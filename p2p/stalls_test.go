package p2p

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// A pair whose link is down for moments that are too short for pulses to be missed is found out, at
// both ends, within some of them. One such moment says nothing, nor do other links.
func TestShortCutsAreFoundOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 4, 10*time.Millisecond)
		var all []*Network
		var ids []slot.PeerID
		for i := range 4 {
			all = append(all, simulated(t, s, i, LAN()))
			ids = append(ids, all[i].ID())
		}
		s.ConnectAll()
		said := map[slot.PeerID][]slot.PeerID{ids[0]: ids, ids[1]: ids, ids[2]: ids, ids[3]: ids}
		messengers := make([]*Messenger, len(all))
		for i, n := range all {
			n.Protect(ids)
			n.SetReaches(func() map[slot.PeerID][]slot.PeerID { return said })
			messengers[i] = n.NewMessenger(ProtocolLedger, 100, func(slot.PeerID, []byte) {}, nil)
		}
		pass := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
				for i := range all {
					for j, to := range ids {
						if i != j {
							messengers[i].Send(to, []byte("something that is small"))
						}
					}
				}
			}
		}
		blip := func() {
			s.Cut(0, 1)
			pass(1500 * time.Millisecond) // over QUIC, what is shorter may be a busy process
			s.Heal(0, 1)
			pass(400 * time.Millisecond)
		}
		pass(5 * time.Second)
		if blip(); all[0].Through(ids[1]) != "" {
			t.Error("one blip makes an unsteady connection")
		}
		pass(20 * time.Second)
		for range 5 {
			blip()
		}
		for i, n := range all {
			for j, to := range ids {
				pair := i < 2 && j < 2
				if through := n.Through(to); i != j && pair != (through != "") {
					t.Errorf("%d reaches %d through %q", i, j, through.Short())
				}
				if n.Hangs(to) {
					t.Errorf("%d to %d hangs though the link is up", i, j)
				}
			}
		}
		s.Cut(0, 1)
		if pass(1500 * time.Millisecond); !all[0].Hangs(ids[1]) || all[2].Hangs(ids[1]) {
			t.Error("what is sent over a link that is down does not hang, or something else does")
		}
		s.Isolate(3)
		if pass(1500 * time.Millisecond); all[3].Hangs(ids[0]) {
			t.Error("a peer whose own link is down says that the others' are")
		}
	})
}

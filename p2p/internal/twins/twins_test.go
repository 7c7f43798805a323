package twins

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
)

const toldBy = "two processes use one identity"

// TestBothProcessesAreTold: a copied key runs twice. One peer that both are connected to is enough,
// at any delay. Peers that see one of them only notice nothing.
func TestBothProcessesAreTold(t *testing.T) {
	for name, delay := range map[string]time.Duration{"near": 5 * time.Millisecond, "far": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, key := sim.New(t, 0, delay), newKey(t)
				first, second := start(t, s, key), start(t, s, key)
				witness, other := start(t, s, newKey(t)), start(t, s, newKey(t))
				first.connect(t, s, witness, other)
				time.Sleep(time.Minute)
				if first.isTwin() {
					t.Fatal("a process that runs alone takes itself for copied")
				}
				second.connect(t, s, witness)
				time.Sleep(time.Minute)
				if !first.isTwin() || !second.isTwin() {
					t.Errorf("the first process knows of the other: %v, the second %v", first.isTwin(),
						second.isTwin())
				}
				if witness.isTwin() || !witness.log.has(toldBy) || other.log.has(toldBy) || other.isTwin() {
					t.Error("the witness says it, and nobody else")
				}
			})
		})
	}
}

// TestMembersComeFirst: strangers that give no answer keep no member from being asked.
func TestMembersComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, key := sim.New(t, 0, 5*time.Millisecond), newKey(t)
		witness := start(t, s, newKey(t))
		first, second := start(t, s, key), start(t, s, key)
		witness.env.Members.Set(setOf(first.host.ID()))
		busy := func(n int) {
			witness.witness.mu.Lock()
			defer witness.witness.mu.Unlock()
			witness.witness.mu.strangers = n
		}
		busy(maxStrangers)
		first.connect(t, s, witness)
		second.connect(t, s, witness)
		strange := newKey(t)
		third, fourth := start(t, s, strange), start(t, s, strange)
		third.connect(t, s, witness)
		fourth.connect(t, s, witness)
		time.Sleep(time.Minute)
		if !first.isTwin() || !second.isTwin() {
			t.Error("a member is not asked while too many strangers are")
		}
		if third.isTwin() {
			t.Error("more strangers are asked at once than may be")
		}
		busy(0)
		time.Sleep(time.Minute)
		if !third.isTwin() || !fourth.isTwin() {
			t.Error("strangers are not asked when there is room")
		}
		witness.witness.mu.Lock()
		defer witness.witness.mu.Unlock()
		if n := witness.witness.mu.strangers; n != 0 {
			t.Errorf("%d strangers are still counted", n)
		}
	})
}

// twice connects a node to a host by two connections.
func twice(t *testing.T, s *sim.Net, a, b *node) {
	t.Helper()
	done := make(chan error, 2)
	for _, d := range [][2]*node{{a, b}, {b, a}} {
		go func() {
			ctx := network.WithForceDirectDial(t.Context(), "twice")
			done <- d[0].host.Connect(ctx, *host.InfoFromHost(d[1].host))
		}()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if conns := b.host.Network().ConnsToPeer(a.host.ID()); len(conns) < 2 {
		t.Fatalf("%d connections", len(conns))
	}
}

// TestOneProcessWithTwoConnections is no pair of twins, and is asked once.
func TestOneProcessWithTwoConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 0, 5*time.Millisecond)
		witness, peer := start(t, s, newKey(t)), start(t, s, newKey(t))
		var asked atomic.Int64
		peer.host.SetStreamHandler(Protocol, func(s network.Stream) {
			asked.Add(1)
			peer.Answer("", s)
			_ = s.Close()
		})
		twice(t, s, peer, witness)
		time.Sleep(10 * time.Minute)
		if peer.isTwin() || witness.isTwin() || witness.log.has(toldBy) {
			t.Error("two connections are taken for two processes")
		}
		if n := asked.Load(); n != 2 {
			t.Errorf("two connections were asked %d times", n)
		}
	})
}

// TestAProcessThatReconnects is no pair of twins, whether its old connections end or stay.
func TestAProcessThatReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 0, 50*time.Millisecond)
		witness, peer := start(t, s, newKey(t)), start(t, s, newKey(t))
		for i := range 20 {
			if i%2 == 0 { // the witness does not learn that the connections have ended
				s.CutOneWay(peer.index, witness.index)
			}
			for _, c := range peer.host.Network().Conns() {
				_ = c.Close()
			}
			time.Sleep(time.Second)
			s.Heal(peer.index, witness.index)
			peer.connect(t, s, witness)
			time.Sleep(time.Duration(i) * time.Second)
		}
		time.Sleep(time.Minute)
		if peer.isTwin() || witness.log.has(toldBy) {
			t.Error("a process that reconnects is taken for two")
		}
	})
}

// TestRestarts: processes die, without a word, and are started again with their key at once, many
// times. To the witness the connections of the dead ones look alive for long, and the network may
// hold what these said in time.
func TestRestarts(t *testing.T) {
	for name, c := range map[string]struct{ delay, every time.Duration }{
		"near, in a storm": {5 * time.Millisecond, time.Second},
		"near":             {5 * time.Millisecond, 7 * time.Second},
		"far, in a storm":  {1500 * time.Millisecond, 4 * time.Second},
		"far":              {1500 * time.Millisecond, 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, key := sim.New(t, 0, c.delay), newKey(t)
				witnesses := []*node{start(t, s, newKey(t)), start(t, s, newKey(t))}
				var lives []*node
				several := 0
				for range 15 {
					life := start(t, s, key)
					lives = append(lives, life)
					life.connect(t, s, witnesses...)
					time.Sleep(c.every)
					several = max(several, len(witnesses[0].host.Network().ConnsToPeer(life.host.ID())))
					s.Isolate(life.index)
					life.end()
				}
				last := start(t, s, key)
				last.connect(t, s, witnesses...)
				time.Sleep(5 * time.Minute)
				for i, life := range append(lives, last) {
					if life.isTwin() {
						t.Errorf("process %d takes an earlier one for its twin", i)
					}
				}
				if several < 2 {
					t.Error("the witness never had connections of two lives")
				}
				if witnesses[0].log.has(toldBy) {
					t.Error("the witness takes restarts for twins")
				}
			})
		})
	}
}

// TestATwinAfterRestarts is found among the connections of dead processes.
func TestATwinAfterRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, key := sim.New(t, 0, 5*time.Millisecond), newKey(t)
		witness, first := start(t, s, newKey(t)), start(t, s, key)
		first.connect(t, s, witness)
		for range 3 {
			life := start(t, s, key)
			life.connect(t, s, witness)
			time.Sleep(time.Second)
			s.Isolate(life.index)
			life.end()
		}
		second := start(t, s, key)
		second.connect(t, s, witness)
		time.Sleep(time.Minute)
		if !first.isTwin() || !second.isTwin() {
			t.Errorf("the first process knows of the other: %v, the second %v", first.isTwin(), second.isTwin())
		}
	})
}

// TestOlderPrograms, which do not speak the protocol, are no twins.
func TestOlderPrograms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, key := sim.New(t, 0, 5*time.Millisecond), newKey(t)
		witness, first, older := start(t, s, newKey(t)), start(t, s, key), start(t, s, key)
		older.host.RemoveStreamHandler(Protocol)
		first.connect(t, s, witness)
		older.connect(t, s, witness)
		time.Sleep(10 * time.Minute)
		if first.isTwin() || older.isTwin() {
			t.Error("a program that proves nothing is taken for a twin")
		}
	})
}

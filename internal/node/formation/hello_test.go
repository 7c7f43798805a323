package formation

import (
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/testutil"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

func init() { testutil.OneCPU() }

// exchangeAll exchanges hellos until the run's spec is settled, and returns how long that took.
func exchangeAll(t *testing.T, g *hellos) time.Duration {
	ctx, cancel := context.WithCancel(t.Context())
	defer g.wg.Wait()
	defer cancel()
	began := time.Now()
	again := time.NewTicker(g.cfg.Hello)
	defer again.Stop()
	for time.Since(began) < 10*time.Minute {
		g.startWaiting(ctx)
		select {
		case <-g.settled:
			return time.Since(began)
		case r := <-g.done:
			g.ended(r, time.Now())
		case <-again.C:
			g.again(time.Now())
		}
	}
	t.Fatal("no spec is settled after 10 minutes")
	return 0
}

// A newcomer finds a run's only member among many peers that take its connections and do not
// answer.
func TestMuteProvidersDoNotHideARun(t *testing.T) {
	const providers = 120
	synctest.Test(t, func(t *testing.T) {
		net := sim.NewMemory(t, 2+providers, 10*time.Millisecond)
		newcomer, member := opened(t, net.Hosts[0]), opened(t, net.Hosts[1])
		run := presetSpec()
		member.SetHello(func(slot.PeerID, p2p.Hello) (p2p.Hello, error) {
			return p2p.Hello{Run: run.Name, Spec: run.Append(nil)}, nil
		})
		g := newHellos(New(testConfig(newcomer, run.Name)))
		g.mu.waited = true // it takes the first run in sight
		for i := range providers {
			h := net.Hosts[2+i]
			h.SetStreamHandler(p2p.ProtocolHello, func(s network.Stream) { _, _ = io.Copy(io.Discard, s) })
			if err := newcomer.Host().Connect(t.Context(), net.Info(2+i)); err != nil {
				t.Fatal(err)
			}
			g.found(slot.PeerID(h.ID()))
		}
		if err := newcomer.Host().Connect(t.Context(), net.Info(1)); err != nil {
			t.Fatal(err)
		}
		g.startWaiting(t.Context()) // exchanges with the first of them start
		g.found(member.ID())
		took := exchangeAll(t, g)
		t.Logf("among %d unresponsive providers a newcomer knows the run after %s", providers, took)
		if took > 2*firstTimeout+time.Second {
			t.Errorf("a newcomer took %s", took)
		}
	})
}

// The pause between two hellos to an unresponsive peer grows, and it gives up its place to other
// peers.
func TestMuteProvidersGetHellosEverMoreSeldom(t *testing.T) {
	g := newHellos(nil)
	now := time.Unix(0, 0)
	for i := range maxKnown {
		g.found(slot.PeerID(fmt.Sprint(i)))
	}
	clear(g.waiting)
	var last time.Duration
	for range 12 {
		g.ended(exchangeEnd{"7", fmt.Errorf("hello: %w", p2p.ErrUnresponsive)}, now)
		pause := g.unresponsive["7"].until.Sub(now)
		if g.again(now.Add(pause - 1)); g.waiting["7"] || !g.waiting["8"] {
			t.Fatalf("it gets a hello within %s, or no peer does", pause)
		}
		clear(g.waiting)
		now = now.Add(pause)
		if g.again(now); !g.waiting["7"] {
			t.Fatalf("no hello after %s", pause)
		}
		clear(g.waiting)
		if pause < last || pause > maxSilentPause {
			t.Errorf("a pause of %s after one of %s", pause, last)
		}
		last = pause
	}
	if last != maxSilentPause {
		t.Errorf("pauses grow to %s", last)
	}
	g.again(now)
	for range 100 {
		if p, _ := g.next(); g.unresponsive[p].times > 0 {
			t.Fatal("an unresponsive peer comes before others")
		}
	}
	g.found("new")
	if !g.known["new"] || g.known["7"] || len(g.known) != maxKnown {
		t.Errorf("new: %v, unresponsive: %v, %d known", g.known["new"], g.known["7"], len(g.known))
	}
	g.ended(exchangeEnd{"7", nil}, now)
	if len(g.unresponsive) != 0 {
		t.Error("an answer does not end it")
	}
	for i := range 2 * maxSilent {
		g.ended(exchangeEnd{slot.PeerID(fmt.Sprint(i)), p2p.ErrUnresponsive}, now)
	}
	if len(g.unresponsive) != maxSilent {
		t.Errorf("%d are remembered", len(g.unresponsive))
	}
}

package p2pdiloco

import (
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// greetAll runs a greeter until the run's spec is settled, and says how long that took.
func greetAll(t *testing.T, g *greeter) time.Duration {
	ctx, cancel := context.WithCancel(t.Context())
	defer g.wg.Wait()
	defer cancel()
	began := time.Now()
	again := time.NewTicker(g.timing.hello)
	defer again.Stop()
	for time.Since(began) < 10*time.Minute {
		g.greetWaiting(ctx)
		select {
		case <-g.settled:
			return time.Since(began)
		case r := <-g.done:
			g.greeted(r, time.Now())
		case <-again.C:
			g.again(time.Now())
		}
	}
	t.Fatal("never")
	return 0
}

// A newcomer finds a run's only member behind so many peers that take its connections and say nothing.
func TestMuteProvidersDoNotHideARun(t *testing.T) {
	const providers = 200
	synctest.Test(t, func(t *testing.T) {
		net := sim.NewMemory(t, 2+providers, 10*time.Millisecond)
		open := func(i int) *p2p.Network {
			n, err := p2p.New(t.Context(), p2p.LAN(), p2p.WithHost(net.Hosts[i]))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = n.Close() })
			return n
		}
		newcomer, member := open(0), open(1)
		spec := simSpec(10, 1)
		spec.Layout = Layout{{Name: "w", Shape: []uint64{4}}}
		settled := spec.Settled()
		member.SetHello(func(PeerID, p2p.Hello) (p2p.Hello, error) {
			return p2p.Hello{Run: spec.Name, Spec: settled.Append(nil)}, nil
		})
		g := newGreeter(newMeeting(newcomer, Config{Spec: Spec{Name: spec.Name}}.withDefaults(), presets[PresetWAN]))
		for i := range providers {
			h := net.Hosts[2+i]
			h.SetStreamHandler(p2p.ProtocolHello, func(s network.Stream) { _, _ = io.Copy(io.Discard, s) })
			if err := newcomer.Host().Connect(t.Context(), net.Info(2+i)); err != nil {
				t.Fatal(err)
			}
			g.meet(PeerID(h.ID()))
		}
		if err := newcomer.Host().Connect(t.Context(), net.Info(1)); err != nil {
			t.Fatal(err)
		}
		g.greetWaiting(t.Context()) // the first of them have their turn
		g.meet(member.ID())
		took := greetAll(t, g)
		t.Logf("among %d mute providers a newcomer knows the run after %s", providers, took)
		if took > 2*greetFirst+time.Second {
			t.Errorf("a newcomer took %s", took)
		}
	})
}

// Who says nothing is greeted ever more seldom, and has no place that others want.
func TestMuteProvidersAreGreetedEverMoreSeldom(t *testing.T) {
	g := newGreeter(nil)
	now := time.Unix(0, 0)
	for i := range maxMet {
		g.meet(PeerID(fmt.Sprint(i)))
	}
	clear(g.waiting)
	var last time.Duration
	for range 12 {
		g.greeted(greeting{"7", fmt.Errorf("hello: %w", p2p.ErrMute)}, now)
		pause := g.quiet["7"].until.Sub(now)
		if g.again(now.Add(pause - 1)); g.waiting["7"] || !g.waiting["8"] {
			t.Fatalf("greeted again within %s, or nobody is", pause)
		}
		clear(g.waiting)
		now = now.Add(pause)
		if g.again(now); !g.waiting["7"] {
			t.Fatalf("not greeted again after %s", pause)
		}
		clear(g.waiting)
		if pause < last || pause > muteMost {
			t.Errorf("a pause of %s after one of %s", pause, last)
		}
		last = pause
	}
	if last != muteMost {
		t.Errorf("pauses grow to %s", last)
	}
	g.again(now)
	for range 100 {
		if p, _ := g.next(); g.quiet[p].times > 0 {
			t.Fatal("one that says nothing comes before those that may")
		}
	}
	g.meet("new")
	if !g.known["new"] || g.known["7"] || len(g.known) != maxMet {
		t.Errorf("new: %v, mute: %v, %d known", g.known["new"], g.known["7"], len(g.known))
	}
	g.greeted(greeting{"7", nil}, now)
	if len(g.quiet) != 0 {
		t.Error("an answer does not end it")
	}
	for i := range 2 * maxMute {
		g.greeted(greeting{PeerID(fmt.Sprint(i)), p2p.ErrMute}, now)
	}
	if len(g.quiet) != maxMute {
		t.Errorf("%d are remembered", len(g.quiet))
	}
}

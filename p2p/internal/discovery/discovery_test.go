package discovery

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// collect takes peers from a discovery until it has seen want of them, or the time is up.
func collect(t *testing.T, found <-chan slot.PeerID, want int, within time.Duration) []slot.PeerID {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	seen := make(map[slot.PeerID]bool)
	for len(seen) < want {
		select {
		case p := <-found:
			seen[p] = true
		case <-ctx.Done():
			t.Fatalf("found %d peers of %d within %s", len(seen), want, within)
		}
	}
	peers := make([]slot.PeerID, 0, len(seen))
	for p := range seen {
		peers = append(peers, p)
	}
	slices.Sort(peers)
	return peers
}

func ids(networks ...*node) []slot.PeerID {
	out := make([]slot.PeerID, len(networks))
	for i, n := range networks {
		out[i] = n.id()
	}
	slices.Sort(out)
	return out
}

func TestPeersFindEachOtherAndOutliveTheBootstrapNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 8
		s := sim.New(t, 1+count+2, 20*time.Millisecond)
		bootstrap := simulated(t, s, 0, wan())
		cfg := wan()
		cfg.Bootstrap = []string{s.Addr(0)}
		var nets []*node
		var found []<-chan slot.PeerID
		for i := range count {
			n := simulated(t, s, 1+i, cfg)
			n.advertise(t, "run")
			nets, found = append(nets, n), append(found, n.find(t.Context(), "run"))
		}
		for i, n := range nets {
			got := collect(t, found[i], count-1, 30*time.Second)
			want := slices.DeleteFunc(ids(nets...), func(p slot.PeerID) bool { return p == n.id() })
			if !slices.Equal(got, want) {
				t.Errorf("peer %d found %v, want %v", i, got, want)
			}
			if err := n.env.Dialer.Bootstrap().Err(); err != nil {
				t.Error(err)
			}
		}

		if err := bootstrap.close(); err != nil {
			t.Error(err)
		}
		s.Close(0)
		time.Sleep(10 * time.Second)
		cfg.Bootstrap = []string{s.Addr(3)} // any one peer will do
		late := simulated(t, s, 1+count, cfg)
		late.advertise(t, "run")
		got := collect(t, late.find(t.Context(), "run"), count, 30*time.Second)
		if want := ids(nets...); !slices.Equal(got, want) {
			t.Errorf("the newcomer found %v, want %v", got, want)
		}
		if got := collect(t, found[0], 1, 60*time.Second); got[0] != late.id() {
			t.Errorf("the first peer found %v, want the newcomer", got)
		}

		stranger := simulated(t, s, 2+count, cfg)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for p := range stranger.find(ctx, "another run") {
			t.Errorf("a peer of another run found %s", p)
		}
	})
}

func TestDiscoverReportsAgainAfterReconnecting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 2, 10*time.Millisecond)
		a := simulated(t, s, 0, lan())
		cfg := lan()
		cfg.Bootstrap = []string{s.Addr(0)}
		b := simulated(t, s, 1, cfg)
		a.advertise(t, "run")
		found := b.find(t.Context(), "run")
		collect(t, found, 1, 20*time.Second)
		noError(t, a.env.Host.Network().ClosePeer(s.Hosts[1].ID()))
		collect(t, found, 1, 20*time.Second)
		s.Cut(0, 1)
		time.Sleep(2 * time.Minute)
		if len(b.peers()) != 0 {
			t.Fatal("still connected over a cut link")
		}
		s.Heal(0, 1)
		if got := collect(t, found, 1, 2*time.Minute); got[0] != a.id() {
			t.Errorf("found %v", got)
		}
	})
}

func TestBootstrapKeepsTrying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 2, 10*time.Millisecond)
		simulated(t, s, 0, lan())
		s.Cut(0, 1)
		cfg := lan()
		cfg.Bootstrap = []string{s.Addr(0)}
		n := simulated(t, s, 1, cfg)
		time.Sleep(5 * time.Minute)
		state := n.env.Dialer.Bootstrap()
		if state.Answered || state.Attempts < 10 || state.Err() == nil {
			t.Errorf("after 5 minutes of silence: %+v, error %v", state, state.Err())
		}
		if err := state.Err(); !errors.Is(err, peers.ErrNoBootstrap) || !strings.Contains(err.Error(), s.Addr(0)) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v; it should name the address, on one line", err)
		}
		s.Heal(0, 1)
		time.Sleep(30 * time.Second)
		if state := n.env.Dialer.Bootstrap(); !state.Answered || state.Err() != nil {
			t.Errorf("after the bootstrap node came: %+v", state)
		}
	})
}

func TestRememberedPeersReplaceTheBootstrapNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 3, 10*time.Millisecond)
		file := fmt.Sprintf("%s/peers.json", t.TempDir())
		simulated(t, s, 0, lan())
		cfg := lan()
		cfg.Bootstrap = []string{s.Addr(0)}
		a := simulated(t, s, 1, cfg)
		a.advertise(t, "run")
		cfg.PeersFile = file
		b := simulated(t, s, 2, cfg)
		collect(t, b.find(t.Context(), "run"), 1, 20*time.Second)
		time.Sleep(2 * time.Second) // a kill takes b: the file must be there without its Close
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), s.Hosts[1].ID().String()) {
			t.Errorf("%s after somebody was met: %s, %v", file, text, err)
		}
		noError(t, b.close())
		s.Close(0)
		s.Close(2)

		i := s.Add()
		again := simulated(t, s, i, settings{PeersFile: file}) // no bootstrap address
		time.Sleep(5 * time.Second)
		if got := again.peers(); !slices.Equal(got, ids(a)) {
			t.Errorf("connected to %v, want the remembered %v", got, a.id())
		}
		if got := collect(t, again.find(t.Context(), "run"), 1, 20*time.Second); got[0] != a.id() {
			t.Errorf("found %v", got)
		}
	})
}

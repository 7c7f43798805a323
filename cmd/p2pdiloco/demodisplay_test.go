package main

import (
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// fakePeers are peers without processes, each with a known ID.
func fakePeers(t *testing.T, n int) []*demoPeer {
	t.Helper()
	s, err := lab.NewSwarm(lab.Setting{Executable: "true"}, lab.Loopback{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	peers := make([]*demoPeer, n)
	for i := range peers {
		p := s.NewPeer(i+1, t.TempDir(), "child")
		if err := s.Join(p, "run", nil); err != nil {
			t.Fatal(err)
		}
		<-p.Ended
		p.ID, p.API = "12D3KooWabcdef", "127.0.0.1:1"
		peers[i] = newDemoPeer(i+1, p, 1)
	}
	return peers
}

func apply(p *demoPeer, slot uint64, root string, loss float64) {
	p.observe(eventlog.Line{Event: "slot.applied", Slot: slot, StateRoot: root})
	p.observe(eventlog.Line{Event: "trainer.stats", Round: slot, Loss: loss})
}

func TestLinesTellEachSlotOnce(t *testing.T) {
	var out strings.Builder
	peers := fakePeers(t, 2)
	s := demoSwarm{Notes: lab.NewNotes(&out), cfg: demoConfig{Spec: p2pdiloco.Spec{Rounds: 2}}, peers: peers}
	s.show()
	apply(peers[0], 1, "aaaaaaaaaa", 2.5)
	s.show()
	if strings.Contains(out.String(), "slot 1") {
		t.Error("slot 1 was told before all peers had it")
	}
	apply(peers[1], 1, "aaaaaaaaaa", 2.5)
	s.show()
	s.show()
	apply(peers[0], 2, "aaaaaaaaaa", 2.25)
	apply(peers[1], 2, "bbbbbbbbbb", 2.25)
	s.show()
	for want, n := range map[string]int{
		"peer 1 started": 1, "peer 2 started": 1,
		"slot 1 of 2: held-out loss 2.5000, state root aaaaaaaa on 2 of 2 peers": 1,
		"STATE ROOTS DIFFER: aaaaaaaaaa, bbbbbbbbbb":                             1, "\x1b": 0,
	} {
		if got := strings.Count(out.String(), want); got != n {
			t.Errorf("%q stands there %d times, not %d:\n%s", want, got, n, out.String())
		}
	}
}

func TestLinesGoOnWithoutTheDead(t *testing.T) {
	var out strings.Builder
	peers := fakePeers(t, 2)
	s := demoSwarm{Notes: lab.NewNotes(&out), cfg: demoConfig{Spec: p2pdiloco.Spec{Rounds: 2}}, peers: peers}
	peers[1].exited = true
	apply(peers[0], 1, "aaaaaaaaaa", 2.5)
	s.show()
	if !strings.Contains(out.String(), "on 1 of 2 peers") {
		t.Errorf("the living peer's slot was not told:\n%s", out.String())
	}
}

// In mode streaming a loss is of a round, which has several slots.
func TestLinesOfModeStreaming(t *testing.T) {
	var out strings.Builder
	peers := fakePeers(t, 1)
	spec := p2pdiloco.Spec{Rounds: 2, Mode: "streaming", Fragments: 3}
	s := demoSwarm{Notes: lab.NewNotes(&out), cfg: demoConfig{Spec: spec}, peers: peers}
	peers[0].parts = 3
	peers[0].observe(eventlog.Line{Event: "slot.applied", Slot: 3, StateRoot: "aaaaaaaaaa"})
	peers[0].observe(eventlog.Line{Event: "trainer.stats", Round: 1, Loss: 2.5})
	s.show()
	if want := "round 1 of 2: held-out loss 2.5000"; !strings.Contains(out.String(), want) {
		t.Errorf("%q is missing:\n%s", want, out.String())
	}
}

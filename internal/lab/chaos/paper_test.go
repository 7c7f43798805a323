package chaos

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// paper is a runner of n members without processes: what is done to them is only written down.
func paper(n int) *runner {
	r := newRunner(Config{Peers: n, Slots: 60}, "", lab.NewNotes(io.Discard), nil)
	for i := range n {
		id := fmt.Sprintf("peer-%d", i+1)
		r.nodes = append(r.nodes, &node{n: i + 1, Peer: &lab.Peer{ID: id}})
		r.ledger.members = append(r.ledger.members, id)
	}
	return r
}

// suffer makes some peers victims of a fault under way, which has come to one of its words.
func (r *runner) suffer(kind Kind, word string, peers ...int) *fault {
	f := newFault(Fault{Kind: kind})
	f.begun, f.Victims, f.began, f.since, f.words = true, peers, time.Now(), time.Now(), []string{word}
	for _, n := range peers {
		p := r.nodes[n-1]
		p.hurt, f.victims = f, append(f.victims, p)
	}
	f.hit = f.victims
	r.active = append(r.active, f)
	return f
}

// wires write down what is done to links.
type wires struct{ did string }

func (w *wires) does(what string, args ...any) error {
	w.did += " " + what + fmt.Sprint(args...)
	return nil
}

func (w *wires) Cut(sites ...int) error             { return w.does("cut", sites) }
func (w *wires) Mute(sites ...int) error            { return w.does("mute", sites) }
func (w *wires) CutPair(i, j int) error             { return w.does("pair", []int{i, j}) }
func (w *wires) Partition(sites ...int) error       { return w.does("part", sites) }
func (w *wires) SetLink(i int, link lab.Link) error { return w.does("link", []int{i, link.Loss}) }
func (w *wires) Heal(sites ...int) error            { return w.does("heal", sites) }

// sleepers is a runner of five peers with processes that do nothing, which end when they are told.
func sleepers(t *testing.T) *runner {
	t.Helper()
	r, dir := paper(0), t.TempDir()
	program := filepath.Join(dir, "sleeps")
	script := "#!/bin/sh\n[ $1 = join ] || echo /ip4/127.0.0.1/tcp/1/p2p/boot >$3\nexec sleep 600\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	r.dir, r.testbed, r.links, r.cfg.Peers = dir, lab.Loopback{}, &wires{}, 5
	var err error
	if r.swarm, err = lab.NewSwarm(lab.Setting{Executable: program}, r.testbed); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
	if err := r.start(t.Context()); err != nil {
		t.Skip(err)
	}
	return r
}

// live has all processes take part in one more slot, as their statuses and logs say.
func (r *runner) live() {
	r.ledger.slot++
	r.ledger.members = nil
	var members []p2pdiloco.MemberStatus
	for _, p := range r.nodes {
		id := slot.PeerID(fmt.Sprintf("peer-%d", p.n))
		p.ID = id.String()
		r.ledger.members = append(r.ledger.members, p.ID)
		if p.running() {
			members = append(members, p2pdiloco.MemberStatus{Peer: id, Path: &p2p.Path{}})
		}
	}
	for _, p := range r.nodes {
		if p.status = (p2pdiloco.Status{}); p.running() {
			p.status = p2pdiloco.Status{Phase: p2pdiloco.PhaseRunning, Slot: r.ledger.slot, Members: members}
		}
	}
}

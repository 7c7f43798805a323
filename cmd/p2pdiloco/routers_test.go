package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

var writeRouters = flag.Bool("write", false, "have TestRouters write its table into "+routersPage)

// The table of how peers behind routers reach each other stands between the two marks.
const (
	routersPage  = "docs/how-to/routers.md"
	routersBegin = "<!-- go test ./cmd/p2pdiloco -run TestRouters -args -write -->\n"
	routersEnd   = "<!-- end -->\n"
)

// routerKinds are a host without a router, and the four kinds of routers.
var routerKinds = []lab.Site{lab.Public, lab.FullCone, lab.PortRestricted, lab.Symmetric, lab.NoUDP}

// promisedWay is how two peers reach each other in the end. A symmetric router has another port for
// each destination: only what lets in everything can be punched to from behind it.
func promisedWay(a, b lab.Site) string {
	switch {
	case a == lab.Public || b == lab.Public:
		return p2p.WayDirect
	case a == lab.Symmetric && b != lab.FullCone, b == lab.Symmetric && a != lab.FullCone:
		return p2p.WayRelayed
	}
	return p2p.WayPunched
}

// TestConnectivityPage: the page's table has each pair, with the way that is promised.
func TestConnectivityPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", routersPage))
	must(t, err)
	_, table, _ := strings.Cut(string(text), routersBegin)
	table, _, _ = strings.Cut(table, routersEnd)
	for i, a := range routerKinds {
		for _, b := range routerKinds[i:] {
			_, row, found := strings.Cut(table, fmt.Sprintf("\n| %s | %s | ", a, b))
			row, _, _ = strings.Cut(row, "\n")
			if cells := strings.Split(row, " | "); !found || len(cells) != 5 ||
				!strings.HasPrefix(cmp.Or(cells[2], cells[0]), promisedWay(a, b)) {
				t.Errorf("%s and %s: %q, want %s", a, b, row, promisedWay(a, b))
			}
		}
	}
}

// routed are processes of this program on hosts of a world, each behind routers of its own.
type routed struct {
	t     *testing.T
	world *lab.Internet
	swarm *lab.Swarm
	text  string // to train on
}

// newRouted makes a world where that is allowed, with a host for each kind.
func newRouted(t *testing.T, kinds ...lab.Site) *routed {
	if !testutil.Nightly() && !*writeRouters {
		t.Skip("takes minutes, and root")
	}
	t.Setenv(clitest.AsProgram, "1")
	link := lab.Link{Rate: 100_000_000, Delay: 10 * time.Millisecond}
	world, err := lab.NewInternet(t.Context(), "p2pnat", link, kinds...)
	_, tun := os.Stat("/dev/net/tun")
	if errors.Is(err, lab.ErrNotRoot) || errors.Is(err, errors.ErrUnsupported) || err != nil && tun != nil {
		t.Skip(err)
	}
	must(t, err)
	t.Cleanup(func() {
		if err := world.Close(); err != nil {
			t.Error(err)
		}
	})
	exe, err := os.Executable()
	must(t, err)
	c, err := lab.NewSwarm(lab.Setting{Executable: exe, Out: io.Discard}, world)
	must(t, err)
	t.Cleanup(c.Close)
	r := &routed{t, world, c, filepath.Join(t.TempDir(), "text")}
	must(t, lab.WriteText(r.text))
	return r
}

// routedPeer is a peer, and what it said of itself.
type routedPeer struct {
	*lab.Peer
	status       p2pdiloco.Status
	roots        map[uint64]string
	applied      map[uint64]time.Time
	contributors map[uint64]int
}

// join starts a peer on a host.
func (r *routed) join(host int, dir, run string, bootstrap []string, args ...string) *routedPeer {
	r.t.Helper()
	p := &routedPeer{
		r.swarm.NewPeer(host, dir, fmt.Sprintf("peer-%d", host)),
		p2pdiloco.Status{},
		map[uint64]string{},
		map[uint64]time.Time{},
		map[uint64]int{},
	}
	if err := r.swarm.Join(p.Peer, run, bootstrap, append([]string{
		"--preset", "lan", "--inner-steps", "1", "--aggregator", "mean", "--outer-lr", "0.7", "--momentum", "0",
		"--held-out", "1", "--data", r.text, "--model", "layers=1,width=16,heads=2,context=8,batch=2", "--pause", "1s",
	}, args...)...); err != nil {
		r.t.Fatal(err)
	}
	return p
}

// look takes in what a peer says, and fails if it has failed.
func (p *routedPeer) look(t *testing.T) {
	t.Helper()
	if s, _, err := p.Ask(t.Context()); err == nil {
		p.status = s
	}
	err := p.Read(func(e eventlog.Line) {
		switch e.Event {
		case "slot.committed":
			var who []string
			_ = json.Unmarshal(e.Contributors, &who) // none, then
			p.contributors[e.Slot] = len(who)
		case "slot.applied", "state.synced":
			p.roots[e.Slot], p.applied[e.Slot] = e.StateRoot, e.Time
		}
	})
	if code, ended := p.Exit(); err != nil || ended && code != 0 {
		t.Fatal(err, p.Failure())
	}
}

// way is how it reaches another peer, if it does.
func (p *routedPeer) way(to *routedPeer) *p2p.Path {
	for _, m := range p.status.Members {
		if m.Peer.String() == to.ID {
			return m.Path
		}
	}
	return nil
}

// wayBetween is how two peers reach each other, if both do. If the two sides differ, the worse one
// counts, because that side's traffic takes it.
func wayBetween(a, b *routedPeer) *p2p.Path {
	w, v := a.way(b), b.way(a)
	if w == nil || v == nil {
		return nil
	}
	both := *w
	if v.Way == p2p.WayRelayed || w.Way == p2p.WayDirect {
		both = *v
	}
	if both.Since = w.Since; v.Since.After(w.Since) {
		both.Since = v.Since
	}
	return &both
}

// TestRouters: peers of each pair of kinds, which know a bootstrap node that relays and nothing
// else, reach each other as promised, and train together.
func TestRouters(t *testing.T) {
	hosts := []lab.Site{lab.Public}
	for _, k := range routerKinds {
		hosts = append(hosts, k, k)
	}
	r := newRouted(t, hosts...)
	var rows strings.Builder
	for i, a := range routerKinds {
		for j := i; j < len(routerKinds); j++ {
			row := r.pair(1+2*i, 2+2*j, promisedWay(a, routerKinds[j]))
			t.Logf("%s and %s: %s", a, routerKinds[j], row)
			fmt.Fprintf(&rows, "| %s | %s | %s |\n", a, routerKinds[j], row)
		}
	}
	if !*writeRouters || t.Failed() {
		return
	}
	path := filepath.Join("..", "..", routersPage)
	text, err := os.ReadFile(path)
	before, rest, begun := strings.Cut(string(text), routersBegin)
	_, after, ended := strings.Cut(rest, routersEnd)
	if err != nil || !begun || !ended {
		t.Fatalf("%s has no place for the table: %v", path, err)
	}
	const head = "\n| one | other | connected | after | in the end | after | first slot after |\n" +
		"| --- | --- | --- | --- | --- | --- | --- |\n"
	text = []byte(before + routersBegin + head + rows.String() + "\n" + routersEnd + after)
	must(t, os.WriteFile(path, text, 0o644))
}

// pair lets two hosts train together until they reach each other in a way and have applied a slot,
// and returns their row of the table. Those that are to be relayed have 15 s to find a better way.
func (r *routed) pair(hostA, hostB int, promised string) string {
	t, dir, run := r.t, r.t.TempDir(), fmt.Sprintf("routers-%d-%d", hostA, hostB)
	defer r.swarm.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	boot, err := r.swarm.StartBoot(ctx, 0, dir, append(r.swarm.Listen(0), "--identity", filepath.Join(dir, "key"),
		"--relay", "--relay-run", run)...)
	must(t, err)
	began := time.Now()
	both := []string{"--start-peers", "2", "--min-peers", "2", "--rounds", "10000"}
	a, b := r.join(hostA, dir, run, boot.Addrs, both...), r.join(hostB, dir, run, boot.Addrs, both...)
	var first, last *p2p.Path
	who := fmt.Sprintf("%s and %s", r.world.Kind(hostA), r.world.Kind(hostB))
	for ; ; time.Sleep(100 * time.Millisecond) {
		a.look(t)
		b.look(t)
		if w := wayBetween(a, b); w != nil && (last == nil || last.Way != w.Way || last.Transport != w.Transport) {
			last, first = w, cmp.Or(first, w)
		}
		one, other := a.roots[1], b.roots[1]
		settled := last != nil && (last.Way != p2p.WayRelayed || time.Since(last.Since) > 15*time.Second)
		if one != "" && other != "" && settled {
			if one != other || last.Way != promised {
				t.Errorf("%s: %s, want %s; roots %.8s and %.8s", who, last.Way, promised, one, other)
			}
			break
		}
		if ctx.Err() != nil {
			t.Errorf("%s: within a minute %+v, roots %.8q and %.8q", who, last, one, other)
			return ""
		}
	}
	cells := append(wayCells(first, began), "", "")
	if first != last {
		cells = append(cells[:2], wayCells(last, began)...)
	}
	slot := slices.MaxFunc([]time.Time{a.applied[1], b.applied[1]}, time.Time.Compare)
	return strings.Join(append(cells, inSeconds(slot.Sub(began))), " | ")
}

func wayCells(w *p2p.Path, began time.Time) []string {
	how := w.Way
	if w.Transport != "" {
		how += ", " + w.Transport
	}
	return []string{how, inSeconds(w.Since.Sub(began))}
}

func inSeconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// TestOneReachableMember: a member with a public address founds a run, and one behind each kind of
// router joins it. Nobody else is there. All contribute from the second slot on, and end with one
// model.
func TestOneReachableMember(t *testing.T) {
	r := newRouted(t, routerKinds...)
	dir, rounds := t.TempDir(), uint64(8)
	args := []string{"--start-peers", fmt.Sprint(len(routerKinds)), "--rounds", fmt.Sprint(rounds)}
	peers := []*routedPeer{r.join(0, dir, "one-reachable", nil, append(r.swarm.Listen(0), args...)...)}
	clitest.Until(t, "the first peer's address", func() bool { peers[0].look(t); return len(peers[0].Addrs) > 0 })
	for host := 1; host < len(routerKinds); host++ {
		peers = append(peers, r.join(host, dir, "one-reachable", peers[0].Addrs, args...))
	}
	deadline := time.After(3 * time.Minute)
	for _, p := range peers {
		select {
		case <-p.Ended:
		case <-deadline:
			t.Fatalf("not at the end after 3 min: %+v", p.status)
		}
	}
	for _, p := range peers {
		p.look(t)
		if report, ok := p.Report(); !ok || !report.Ended || p.roots[rounds] != peers[0].roots[rounds] {
			t.Errorf("%s: ended %v, root %q, want %q", p.ID, report.Ended, p.roots[rounds], peers[0].roots[rounds])
		}
		for slot := uint64(2); slot <= rounds; slot++ {
			if n, is := p.contributors[slot]; n != len(peers) && (is || p == peers[0]) {
				t.Errorf("%s: slot %d has %d contributors", p.ID, slot, n)
			}
		}
	}
}

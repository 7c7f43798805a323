package formation

import (
	"cmp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/p2pdiloco/p2pdiloco/internal/onecpu"

	"github.com/libp2p/go-libp2p/core/host"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// promiseCase is what a stranger repeats in its hellos, and for how long a peer waits for it.
type promiseCase struct {
	founders []int // by host, the promiser is host 1
	trust    string
	found    bool // the peer is told to found the run
	least    time.Duration
	most     time.Duration
}

// A peer waits for one that is about to found the run, for a bounded time, and not at all for one
// that may not do so alone, or where its operator says that it is to found the run. Any stranger
// could else stop a founding for ever.
func TestAPromiseHoldsUpAFoundingForABoundedTime(t *testing.T) {
	for name, c := range map[string]promiseCase{
		"the only founder":         {[]int{1}, spec.TrustByzantine, false, promiseWait, promiseWait + time.Minute},
		"told to found":            {[]int{1}, spec.TrustByzantine, true, 0, time.Minute},
		"another founder":          {[]int{2}, spec.TrustByzantine, false, 0, time.Minute},
		"two founders":             {[]int{1, 2}, spec.TrustByzantine, false, 0, time.Minute},
		"a run that all may found": {nil, spec.TrustCrash, false, 0, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, c.run)
		})
	}
}

func (c promiseCase) run(t *testing.T) {
	net := sim.NewMemory(t, 3, time.Millisecond)
	n, err := p2p.New(t.Context(), p2p.LAN(), p2p.WithHost(net.Hosts[0]))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	run := presetSpec()
	cfg := testConfig(n, run.Name)
	cfg.Given, cfg.Found = run, c.found
	cfg.Given.Trust = ""
	f := New(cfg)
	theirs := run
	theirs.Trust = c.trust
	for _, i := range c.founders {
		theirs.Founders = append(theirs.Founders, slot.PeerID(net.Hosts[i].ID()))
	}
	theirs = theirs.Settled()
	said := p2p.Hello{Run: run.Name, Spec: theirs.Append(nil), Unfounded: true}
	began := time.Now()
	for f.spec() == nil && time.Since(began) < 2*promiseWait {
		f.receive(slot.PeerID(net.Hosts[1].ID()), said)
		if err := f.decide(began, true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(cfg.Hello)
	}
	took := time.Since(began)
	if took < c.least || took > c.most {
		t.Errorf("the spec is settled after %s, want %s to %s", took, c.least, c.most)
	}
	if s := f.spec(); s != nil && s.RunID() == theirs.RunID() && len(c.founders) > 0 {
		t.Error("it takes the spec of a run that nobody has founded")
	}
}

// A peer that says that it is about to found a run, and never does, does not divide those that wait
// for it. Once they wait no more, one of them founds, and the others wait for that one, though it
// takes longer than they wait for a lower ID. Each would else found a run of its own, the moment
// that the promise has lasted too long.
func TestABrokenPromiseDoesNotDivideThoseThatWaited(t *testing.T) {
	for name, c := range map[string]struct {
		late    time.Duration // the lowest peer joins so much later
		founder int           // in the order of IDs
		settled time.Duration // when it settles its spec, or two hellos later
	}{
		"all wait from the start": {0, 0, promiseWait},
		// The others wait for its lower ID, while it still waits for the promise.
		"the lowest comes later": {5 * time.Minute, 1, promiseWait + searchingWait*testConfig(nil, "").Discovery},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWaiting(t, 3)
				w.joins[0] = c.late
				w.run(t)
				founder := w.peers[c.founder].cfg
				for i, f := range w.peers {
					if s := f.spec(); s == nil || !isOf(*s, founder.Network.ID()) {
						t.Errorf("peer %d of the order of IDs is not in the run that peer %d founds", i, c.founder)
					}
				}
				if took := w.settled; took < c.settled || took > c.settled+2*founder.Hello {
					t.Errorf("the first spec is settled after %s, want %s", took, c.settled)
				}
			})
		})
	}
}

// waiting is a number of peers that could found a run, in the order of their IDs, and a stranger
// that says that it is about to.
type waiting struct {
	peers    []*Formation
	joins    []time.Duration // when each of them starts
	stranger slot.PeerID     // it has the lowest ID
	said     p2p.Hello       // by the stranger
	settled  time.Duration   // when the first peer settled a spec

	crowd func(*Formation, time.Duration) // what a peer hears first at a time; may be nil
}

// newWaiting makes n peers and a stranger.
func newWaiting(t *testing.T, n int) *waiting {
	net := sim.NewMemory(t, n+1, time.Millisecond)
	slices.SortFunc(net.Hosts, func(a, b host.Host) int { return cmp.Compare(a.ID(), b.ID()) })
	run := presetSpec()
	run.Trust = spec.TrustByzantine
	w := &waiting{joins: make([]time.Duration, n), stranger: slot.PeerID(net.Hosts[0].ID())}
	for _, h := range net.Hosts[1:] {
		own, err := p2p.New(t.Context(), p2p.LAN(), p2p.WithHost(h))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = own.Close() })
		cfg := testConfig(own, run.Name)
		cfg.Given = run
		w.peers = append(w.peers, New(cfg))
	}
	theirs := run
	theirs.Founders = []slot.PeerID{w.stranger}
	w.said = p2p.Hello{Run: run.Name, Spec: theirs.Settled().Append(nil), Unfounded: true}
	return w
}

// run has all peers exchange hellos and decide, until each has a spec. One that has settled its own
// founds that run 5 minutes later.
func (w *waiting) run(t *testing.T) {
	const founding = 5 * time.Minute
	began, founds := time.Now(), make([]time.Time, len(w.peers))
	for time.Since(began) < 4*promiseWait {
		w.greet(t, time.Since(began))
		for i, f := range w.peers {
			since := began.Add(w.joins[i])
			if time.Now().Before(since) {
				continue
			}
			if err := f.decide(since, true); err != nil {
				t.Fatal(err)
			}
			if founds[i].IsZero() && f.Unfounded() {
				founds[i], w.settled = time.Now().Add(founding), cmp.Or(w.settled, time.Since(began))
			}
			if f.Unfounded() && !time.Now().Before(founds[i]) {
				f.Founded()
			}
		}
		if !slices.ContainsFunc(w.peers, func(f *Formation) bool { return f.spec() == nil || f.Unfounded() }) {
			return
		}
		time.Sleep(w.peers[0].cfg.Hello)
	}
	t.Error("some peer has no spec of a run that is founded")
}

// greet has all that have started by now hear each other and the stranger. One that has waited long
// enough for the stranger does not tell others to wait for it.
func (w *waiting) greet(t *testing.T, now time.Duration) {
	for i, f := range w.peers {
		if now < w.joins[i] {
			continue
		}
		if w.crowd != nil {
			w.crowd(f, now)
		}
		f.receive(w.stranger, w.said)
		for j, g := range w.peers {
			if j == i || now < w.joins[j] {
				continue
			}
			h := g.hello()
			if w.crowd == nil && h.Awaits == w.stranger && now >= w.joins[j]+promiseWait {
				t.Fatalf("peer %d of the order of IDs still says after %s that it awaits the stranger", j, now)
			}
			f.receive(g.cfg.Network.ID(), h)
		}
	}
}

package formation

import (
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/p2pdiloco/p2pdiloco/internal/onecpu"

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

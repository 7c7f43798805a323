package formation

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/p2pdiloco/p2pdiloco/internal/onecpu"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// sightedCase is what a peer hears, that knows the name of a run alone, and what it does. Peers are
// numbers of hosts: 0 is the peer itself, any other is in the run that it has founded.
type sightedCase struct {
	hears  []int
	after  time.Duration // that this peer looks around
	looked bool
	start  []int // peers that were given as bootstrap addresses
	id     int   // of the run of that peer; 0: none is given
	found  bool
	want   int // founder of the run that is taken, or one of these
}

const (
	glance  = 2 * time.Second
	waits   = -1
	several = -2
)

func TestWhichRunOfANameIsMeant(t *testing.T) {
	for name, c := range map[string]sightedCase{
		"one, at the first glance":   {hears: []int{1}, after: glance - 1, looked: true, want: waits},
		"one":                        {hears: []int{1, 1}, after: glance, looked: true, want: 1},
		"one, and others may answer": {hears: []int{1}, after: glance, want: waits},
		"one, the window is over":    {hears: []int{1}, after: 20 * time.Second, want: 1},
		"two":                        {hears: []int{1, 2}, after: glance, looked: true, want: several},
		"the member that was given":  {hears: []int{1, 2}, start: []int{2}, want: 2},
		"given, and heard already":   {hears: []int{2, 1}, start: []int{1}, want: 1},
		"the ID":                     {hears: []int{1, 2}, id: 2, want: 2},
		"another ID":                 {hears: []int{1}, id: 2, after: time.Hour, looked: true, want: waits},
		"told to found, and one":     {hears: []int{1}, found: true, after: time.Hour, want: 1},
		"told to found, and none":    {found: true, after: time.Hour, want: 0},
		"told to found, too early":   {found: true, looked: true, want: waits},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, c.run) })
	}
}

func (c sightedCase) run(t *testing.T) {
	net := sim.NewMemory(t, 3, time.Millisecond)
	n, err := p2p.New(t.Context(), p2p.LAN(), p2p.WithHost(net.Hosts[0]))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	peer := func(i int) slot.PeerID { return slot.PeerID(net.Hosts[i].ID()) }
	of := func(i int) spec.Spec {
		s := presetSpec()
		s.Trust, s.Founders = spec.TrustByzantine, []slot.PeerID{peer(i)}
		return s.Settled()
	}
	cfg := testConfig(n, presetSpec().Name)
	cfg.Found = c.found
	if c.found || c.id > 0 { // it could found a run
		cfg.Given = presetSpec()
		cfg.Given.Trust = ""
	}
	if c.id > 0 {
		cfg.ID = of(c.id).RunID().String()[:16]
	}
	for _, i := range c.start {
		cfg.Start = append(cfg.Start, peer(i))
	}
	f := New(cfg)
	for _, i := range c.hears {
		f.receive(peer(i), p2p.Hello{Run: cfg.Given.Name, Spec: of(i).Append(nil)})
	}
	err = f.decide(time.Now().Add(-c.after), c.looked)
	if all, ok := errors.AsType[Several](err); ok != (c.want == several) || err != nil && len(all) != 2 {
		t.Errorf("it says %v", err)
	}
	if s := f.spec(); (s == nil) != (c.want < 0) || s != nil && !isOf(*s, peer(c.want)) {
		t.Errorf("it takes %+v", s)
	}
}

// What this host knows may keep a peer from founding a run, and from no more.
func TestAPeerThatMayNotFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := sim.NewMemory(t, 1, time.Millisecond)
		n, err := p2p.New(t.Context(), p2p.LAN(), p2p.WithHost(net.Hosts[0]))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = n.Close() })
		cfg, why := testConfig(n, presetSpec().Name), errors.New("another run is here")
		cfg.Given = presetSpec()
		cfg.MayFound = func(slot.Root) error { return why }
		f := New(cfg)
		if err := f.decide(time.Now().Add(-cfg.Discovery), true); !errors.Is(err, why) || f.spec() != nil {
			t.Errorf("it says %v", err)
		}
	})
}

package formation

import (
	"cmp"
	"errors"
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
	if s := f.spec(); (s == nil) != (c.want < 0) || s != nil && !OnlyFounder(*s, peer(c.want)) {
		t.Errorf("it takes %+v", s)
	}
}

// What this host knows may keep a peer from founding a run, and from no more.
func TestAPeerThatMayNotFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("another run is here")
		f := alone(t, func(c *Config) { c.MayFound = func(slot.Root) error { return why } })
		if err := f.decide(time.Now().Add(-f.cfg.Discovery), true); !errors.Is(err, why) || f.spec() != nil {
			t.Errorf("it says %v", err)
		}
	})
}

// told is what a peer says of the run of a founder.
type told struct {
	founder       int // in the order of IDs
	members, slot uint64
}

// threeFounders are three peers in the order of their IDs, the specs of their runs, and the network
// of the one in the middle.
func threeFounders(t *testing.T) (ids []slot.PeerID, specs []spec.Spec, middle *p2p.Network) {
	net := sim.NewMemory(t, 3, time.Millisecond)
	slices.SortFunc(net.Hosts, func(a, b host.Host) int { return cmp.Compare(a.ID(), b.ID()) })
	for _, h := range net.Hosts {
		s := presetSpec()
		s.Trust, s.Founders = spec.TrustByzantine, []slot.PeerID{slot.PeerID(h.ID())}
		ids, specs = append(ids, slot.PeerID(h.ID())), append(specs, s.Settled())
	}
	middle, err := p2p.New(t.Context(), p2p.LAN(), p2p.WithHost(net.Hosts[1]))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = middle.Close() })
	return ids, specs, middle
}

// Of several runs a newcomer takes the only one that has more members than its founder. Where there
// is none, all newcomers take the same one, whichever they hear first.
func TestFoundersThatAreAloneHoldNobodyUp(t *testing.T) {
	for name, c := range map[string]struct {
		hears []told
		want  int
	}{
		"one is alone":              {[]told{{0, 1, 3}, {2, 2, 3}}, 2},
		"one has gone far":          {[]told{{0, 1, 3}, {2, 1, slot.Early}}, 2},
		"one is of another program": {[]told{{0, 1, 3}, {2, 0, 0}}, 2},
		"it has got members":        {[]told{{2, 1, 3}, {0, 1, 3}, {2, 3, 3}}, 2},
		"others do not know yet":    {[]told{{2, 3, 3}, {0, 1, 3}, {2, 1, 0}}, 2},
		"all are alone":             {[]told{{2, 1, 3}, {0, 1, 0}}, 0},
		"none is alone":             {[]told{{0, 2, 3}, {2, 3, 3}}, several},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ids, specs, n := threeFounders(t)
				f := New(testConfig(n, presetSpec().Name))
				began := time.Now()
				var err error
				for range choiceWait + 1 {
					for _, h := range c.hears {
						f.receive(ids[h.founder], p2p.Hello{
							Run: f.given.Name, Spec: specs[h.founder].Append(nil), Slot: h.slot, Members: h.members,
						})
					}
					if err = f.decide(began, true); err != nil {
						break
					}
					time.Sleep(f.cfg.Hello)
				}
				if _, ok := errors.AsType[Several](err); ok != (c.want == several) {
					t.Fatalf("it says %v", err)
				}
				if s := f.spec(); c.want >= 0 && (s == nil || !OnlyFounder(*s, ids[c.want])) {
					t.Errorf("it takes %+v", s)
				}
			})
		})
	}
}

// A founder that is alone gives its run up for one that is not given up, or has a founder with a
// lower ID. A member gives up nothing, nor does who was told to found the run.
func TestWhichRunIsGivenUp(t *testing.T) {
	for name, c := range map[string]struct {
		hears    []told
		crowded  bool // it is not alone
		found    bool // it was told to found
		access   string
		wantUp   bool
		searches bool // it says hello to those that it knows, again and again
	}{
		"a founder with a lower ID":     {hears: []told{{0, 1, 3}}, wantUp: true},
		"one with a higher ID":          {hears: []told{{2, 1, 3}}, searches: true},
		"one with a member":             {hears: []told{{2, 2, 3}}, wantUp: true},
		"one that gets a member":        {hears: []told{{2, 1, 3}, {2, 1, 4}, {2, 2, 5}}, wantUp: true},
		"one that has gone far":         {hears: []told{{2, 1, slot.Early}}, wantUp: true},
		"one of an older program":       {hears: []told{{2, 0, 0}}, wantUp: true},
		"this one has members":          {hears: []told{{0, 9, 99}}, crowded: true},
		"this one was told to found it": {hears: []told{{0, 9, 99}}, found: true},
		"a private run":                 {hears: []told{{0, 9, 99}}, access: spec.AccessPrivate, searches: true},
		"its own":                       {hears: []told{{1, 9, 99}}, searches: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ids, specs, n := threeFounders(t)
				cfg := testConfig(n, presetSpec().Name)
				cfg.Found = c.found
				up := 0
				cfg.GiveUp = func(run Sighted) {
					if up++; run.ID != specs[c.hears[0].founder].RunID() {
						t.Errorf("for %s", run)
					}
				}
				f := New(cfg)
				f.Adopt(specs[1])
				f.receive(ids[1], p2p.Hello{Run: f.given.Name, Spec: specs[1].Append(nil), Timing: "lan"})
				f.Introduce(1, func() (slot, members uint64, alone bool) { return 1, 1, !c.crowded })
				for _, h := range slices.Concat(c.hears, c.hears) {
					s := specs[h.founder]
					if c.access != "" {
						s.Access = c.access
					}
					f.receive(ids[h.founder], p2p.Hello{
						Run: f.given.Name, Spec: s.Append(nil), Slot: h.slot, Members: h.members,
					})
				}
				if up > 1 || (up == 1) != c.wantUp {
					t.Errorf("it gives its run up %d times", up)
				}
				if f.over() == c.searches {
					t.Errorf("it looks for others: %v", !f.over())
				}
			})
		})
	}
}

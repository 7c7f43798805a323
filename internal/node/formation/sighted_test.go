package formation

import (
	"cmp"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/testutil"

	"github.com/libp2p/go-libp2p/core/host"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

func init() { testutil.OneCPU() }

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
	g := gather(t, 3, 0, func(g *crowd, cfg *Config) {
		cfg.Found = c.found
		if c.found || c.id > 0 { // it could found a run
			cfg.Given = presetSpec()
			cfg.Given.Trust = ""
		}
		if c.id > 0 {
			cfg.ID = g.specs[c.id].RunID().String()[:16]
		}
		for _, i := range c.start {
			cfg.Start = append(cfg.Start, g.ids[i])
		}
	})
	for _, i := range c.hears {
		g.hear(told{founder: i})
	}
	err := g.decide(time.Now().Add(-c.after), c.looked)
	if all, ok := errors.AsType[Several](err); ok != (c.want == several) || err != nil && len(all) != 2 {
		t.Errorf("it says %v", err)
	}
	if s := g.spec(); (s == nil) != (c.want < 0) || s != nil && !OnlyFounder(*s, g.ids[c.want]) {
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

// crowd are founders in the order of their IDs, the specs of their runs, and one of them.
type crowd struct {
	*Formation
	ids   []slot.PeerID
	specs []spec.Spec
}

// gather makes a crowd of n, and the formation of one; change may change what it goes by.
func gather(t *testing.T, n, self int, change func(g *crowd, cfg *Config)) *crowd {
	net, g := sim.NewMemory(t, n, time.Millisecond), &crowd{}
	slices.SortFunc(net.Hosts, func(a, b host.Host) int { return cmp.Compare(a.ID(), b.ID()) })
	for _, h := range net.Hosts {
		s := presetSpec()
		s.Trust, s.Founders = spec.TrustByzantine, []slot.PeerID{slot.PeerID(h.ID())}
		g.ids, g.specs = append(g.ids, slot.PeerID(h.ID())), append(g.specs, s.Settled())
	}
	cfg := testConfig(opened(t, net.Hosts[self]), presetSpec().Name)
	change(g, &cfg)
	g.Formation = New(cfg)
	return g
}

// opened is the network of a host.
func opened(t *testing.T, h host.Host) *p2p.Network {
	n, err := p2p.New(t.Context(), p2p.LAN(), p2p.WithHost(h))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}

// hear receives what a founder says of its run.
func (g *crowd) hear(h told) {
	g.receive(g.ids[h.founder], p2p.Hello{
		Run: presetSpec().Name, Spec: g.specs[h.founder].Append(nil), Slot: h.slot, Members: h.members,
	})
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
				f := gather(t, 3, 1, func(*crowd, *Config) {})
				began := time.Now()
				var err error
				for range choiceWait + 1 {
					for _, h := range c.hears {
						f.hear(h)
					}
					if err = f.decide(began, true); err != nil {
						break
					}
					time.Sleep(f.cfg.Hello)
				}
				if _, ok := errors.AsType[Several](err); ok != (c.want == several) {
					t.Fatalf("it says %v", err)
				}
				if s := f.spec(); c.want >= 0 && (s == nil || !OnlyFounder(*s, f.ids[c.want])) {
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
		"one that tells no size":        {hears: []told{{2, 0, 0}}, wantUp: true},
		"this one has members":          {hears: []told{{0, 9, 99}}, crowded: true},
		"this one was told to found it": {hears: []told{{0, 9, 99}}, found: true},
		"a private run":                 {hears: []told{{0, 9, 99}}, access: spec.AccessPrivate, searches: true},
		"its own":                       {hears: []told{{1, 9, 99}}, searches: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := 0
				f := gather(t, 3, 1, func(g *crowd, cfg *Config) {
					cfg.Found = c.found
					cfg.GiveUp = func(run Sighted) {
						if up++; run.ID != g.specs[c.hears[0].founder].RunID() {
							t.Errorf("for %s", run)
						}
					}
				})
				f.Adopt(f.specs[1])
				f.receive(f.ids[1], p2p.Hello{Run: f.given.Name, Spec: f.specs[1].Append(nil), Timing: "lan"})
				f.Introduce(1, func() (slot, members uint64, alone, in bool) { return 1, 1, !c.crowded, true })
				if c.access != "" {
					f.specs[0].Access = c.access
				}
				for _, h := range slices.Concat(c.hears, c.hears) {
					f.hear(h)
				}
				if up > 1 || (up == 1) != c.wantUp || f.isSettled() == c.searches {
					t.Errorf("it gives its run up %d times, and looks for others: %v", up, !f.isSettled())
				}
			})
		})
	}
}

// A newcomer follows where the run that it has chosen is given up before anybody is a member of it.
func TestANewcomerFollows(t *testing.T) {
	for name, c := range map[string]struct {
		hears  []told
		given  bool // its run is that of a peer whose address was given
		wantUp bool
	}{
		"to a run with members":          {hears: []told{{1, 1, 3}, {2, 2, 3}}, wantUp: true},
		"to the founder of a lower ID":   {hears: []told{{1, 1, 3}, {0, 1, 3}}, wantUp: true},
		"not to one of a higher ID":      {hears: []told{{1, 1, 3}, {2, 1, 3}}},
		"not from a run with members":    {hears: []told{{1, 1, 3}, {1, 2, 4}, {2, 2, 3}}},
		"not from the run that is meant": {hears: []told{{1, 1, 3}, {2, 2, 3}}, given: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := 0
				f := gather(t, 4, 3, func(g *crowd, cfg *Config) {
					cfg.GiveUp = func(Sighted) { up++ }
					if c.given {
						cfg.Start = g.ids[1:2]
					}
				})
				f.hear(c.hears[0])
				time.Sleep(time.Minute)
				if err := f.decide(time.Now().Add(-time.Minute), true); err != nil || f.spec() == nil {
					t.Fatalf("it takes %v: %v", f.spec(), err)
				}
				f.Introduce(1, func() (slot, members uint64, alone, in bool) { return 0, 0, true, false })
				for _, h := range c.hears[1:] {
					f.hear(h)
				}
				if (up == 1) != c.wantUp {
					t.Errorf("it gives its run up %d times", up)
				}
			})
		})
	}
}

package liveness

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// told is a connection with what it tells of itself.
type told struct{ Acks }

// watched are the connections to one peer, which are looked at as time goes by.
type watched struct {
	*stalls
	conns []any
	now   time.Time
}

func watch(conns ...*told) *watched {
	w := &watched{now: time.Now(), stalls: &stalls{
		env: peers.Env{Log: slog.New(slog.DiscardHandler)}, signs: NewSigns(time.Second),
		of:  map[peer.ID]*member{"a": {}},
		ask: func(c any) func() Acks { return func() Acks { return c.(*told).Acks } },
	}}
	for _, c := range conns {
		w.conns = append(w.conns, c)
	}
	return w
}

// pass looks for a time.
func (w *watched) pass(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(stallLook) {
		w.lookAt("a", w.conns, w.now)
	}
}

func (w *watched) unsteady() bool { return w.signs.interruptions.unsteady("a", w.now) }

func (w *watched) hangs() bool { return w.signs.interruptions.hanging("a") }

// sends has something sent that is acknowledged after a time.
func (w *watched) sends(c *told, acknowledged time.Duration) {
	c.Waiting = true
	w.pass(acknowledged)
	c.Waiting = false
	c.Count++
	c.Came++
	w.pass(stallLook)
}

// A link that is down for a moment again and again is found out within few of them. One that loses
// a packet at times is not, nor is one that is down for long, once.
func TestStalls(t *testing.T) {
	const trip = 10 * time.Millisecond
	lost := leastStall - stallLook // what a lone packet takes that was lost
	for _, c := range []struct {
		name  string
		takes []time.Duration // what is sent, one after the other
		pause time.Duration   // between them
		want  bool
	}{
		{"packets that are lost", []time.Duration{lost, lost, lost, lost, lost, lost}, time.Second, false},
		{"a blip", []time.Duration{time.Second}, 0, false},
		{"two", []time.Duration{500 * time.Millisecond, 500 * time.Millisecond}, time.Second, false},
		{"three", slices.Repeat([]time.Duration{500 * time.Millisecond}, 3), time.Second, true},
		{"three that lie far apart", []time.Duration{time.Second, time.Second, time.Second}, stallsWithin / 2, false},
		{"a long one", []time.Duration{time.Minute}, 0, false},
	} {
		conn := &told{Acks: Acks{Trip: trip, Came: 1}}
		w := watch(conn)
		for _, d := range c.takes {
			w.sends(conn, d)
			w.pass(c.pause)
		}
		if got := w.unsteady(); got != c.want {
			t.Errorf("%s: said to come and go: %v", c.name, got)
		}
	}
}

// What waits behind ever longer times of TCP counts by itself, where other things come meanwhile.
// Where nothing comes several connections have one cause.
func TestStallsOfOneCause(t *testing.T) {
	one, two, three := &told{}, &told{}, &told{}
	w := watch(one, two, three)
	one.Came = 1
	for _, c := range []*told{one, two, three} {
		c.Waiting = true
		w.pass(500 * time.Millisecond)
	}
	if !w.hangs() || w.unsteady() {
		t.Errorf("three connections to a peer that is silent: hangs: %v, comes and goes: %v", w.hangs(), w.unsteady())
	}
	one.Waiting, two.Waiting, three.Waiting = false, false, false
	if w.pass(stallLook); w.hangs() {
		t.Error("it hangs though nothing waits")
	}
	conn := &told{}
	w = watch(conn)
	conn.Waiting = true
	for range 30 { // the other direction is whole
		conn.Came++
		w.pass(stallLook)
	}
	if !w.hangs() || !w.unsteady() {
		t.Errorf("what waits while others come: hangs: %v, comes and goes: %v", w.hangs(), w.unsteady())
	}
}

// A long way takes long, and what is not known counts for nothing.
func TestNoStalls(t *testing.T) {
	far, unknown := &told{Acks: Acks{Trip: time.Second}}, &told{}
	w := watch(far, unknown)
	ask := w.ask
	w.ask = func(c any) func() Acks {
		if c == unknown {
			return nil
		}
		return ask(c)
	}
	unknown.Waiting = true
	for range 10 {
		if w.sends(far, 2*time.Second); w.hangs() {
			t.Fatal("a round trip counts as a stall")
		}
	}
}

// A program that acknowledges, and gets no processor for a moment now and then, is no link that
// comes and goes.
func TestBusyProgramsAreNoStalls(t *testing.T) {
	for stands, want := range map[time.Duration]bool{programStall * 9 / 10: false, programStall * 3 / 2: true} {
		conn := &told{Acks: Acks{Trip: 20 * time.Millisecond, Came: 1, Program: true}}
		w := watch(conn)
		for range 4 {
			w.sends(conn, stands)
			w.pass(time.Second)
		}
		if got := w.unsteady(); got != want {
			t.Errorf("it stands still for %v again and again, and is said to come and go: %v", stands, got)
		}
	}
}

// What was sent just before one look, and just before the next, has not waited from the one to the
// other, however far apart they lie.
func TestPacketsInFlightAreNoStalls(t *testing.T) {
	for _, every := range []time.Duration{stallLook, 300 * time.Millisecond, time.Second} {
		conn := &told{Acks: Acks{Trip: 20 * time.Millisecond}}
		w := watch(conn)
		for i := range 24 { // something is in flight at each second look
			if conn.Waiting = i%2 == 1; !conn.Waiting {
				conn.Count++
				conn.Came++
			}
			w.lookAt("a", w.conns, w.now)
			if w.now = w.now.Add(every); w.hangs() || w.unsteady() {
				t.Fatalf("looked at every %v: hangs: %v, comes and goes: %v", every, w.hangs(), w.unsteady())
			}
		}
	}
}

// Many members take turns, but for those to whom something is under way.
func TestManyMembersTakeTurns(t *testing.T) {
	const many = 4 * looksAtOnce
	w, asked, all := watch(), make(map[any]int), make(map[peer.ID][]any)
	w.env.Members = peers.NewMembers(connmgr.NullConnMgr{})
	ids := make(map[peer.ID]struct{})
	for i := range many {
		id := peer.ID(rune('a' + i))
		ids[id] = struct{}{}
		all[id] = []any{&told{Acks: Acks{Waiting: id == "a"}}}
	}
	w.env.Members.Set(ids)
	w.stalls.conns = func() map[peer.ID][]any { return all }
	w.ask = func(c any) func() Acks {
		return func() Acks {
			asked[c]++
			return c.(*told).Acks
		}
	}
	const looks = 50
	for range looks {
		w.look(w.now)
		w.now = w.now.Add(stallLook)
	}
	for id := range ids {
		got := asked[all[id][0]]
		if waits := id == "a"; waits && got < looks-many/looksAtOnce || !waits && (got < 8 || got > looks/4) {
			t.Errorf("something waits: %v; it is asked %d times in %d looks", waits, got, looks)
		}
	}
}

// wired is a connection over TCP, on which something is sent now and then.
type wired struct {
	told
	from, every time.Duration // when it is sent first, and again once nothing waits; 0: never
	next, rto   time.Duration // when TCP sends it again, and how long it waits the next time
	comes       time.Duration // when the acknowledgement does; 0: it is not under way
}

// step lets a while pass in which the link is up, or not.
func (c *wired) step(now time.Duration, up bool) {
	if c.comes > 0 && now >= c.comes {
		c.Waiting, c.comes = false, 0
		c.Count++
		c.Came++
	}
	if !c.Waiting && c.from >= 0 && now >= c.from {
		c.Waiting, c.next, c.rto = true, now, 200*time.Millisecond+c.Trip
		if c.from += c.every; c.every == 0 {
			c.from = -1
		}
	}
	if c.Waiting && c.comes == 0 && now >= c.next {
		if up {
			c.comes = now + c.Trip
		}
		c.next, c.rto = now+c.rto, 2*c.rto
	}
}

// over lets connections over one link be looked at for a time. On the first one something comes
// twice a second.
func over(d time.Duration, up func(time.Duration) bool, conns ...*wired) *watched {
	const tick = 10 * time.Millisecond
	w := watch()
	w.ask = func(c any) func() Acks { return func() Acks { return c.(*wired).Acks } }
	for _, c := range conns {
		c.Trip, c.Came = 40*time.Millisecond, 1
		w.conns = append(w.conns, c)
	}
	for now := time.Duration(0); now < d; now += tick {
		for _, c := range conns {
			c.step(now, up(now))
		}
		if up(now) && now%(500*time.Millisecond) == 0 {
			conns[0].Came++
		}
		if now%stallLook == 0 {
			w.pass(stallLook)
		}
	}
	return w
}

// A single cut is one stall, however long it lasts and on however many connections something waits:
// TCP sends on some of them long after the link is up, when things come on others again.
func TestACutIsOneStall(t *testing.T) {
	const ms = time.Millisecond
	for _, offsets := range [][]time.Duration{
		{0},
		{0, 700 * ms},
		{0, 300 * ms, 700 * ms},
		{0, 400 * ms, 900 * ms, 1500 * ms},
		{900 * ms, 0, 200 * ms, 500 * ms, 2000 * ms},
	} {
		for cut := 500 * ms; cut <= 6*time.Second; cut += 100 * ms {
			var conns []*wired
			for _, at := range offsets {
				conns = append(conns, &wired{from: time.Second + at})
			}
			up := func(now time.Duration) bool { return now < time.Second || now >= time.Second+cut }
			w := over(20*time.Second, up, conns...)
			count := 0
			for _, at := range w.signs.interruptions.mu.of["a"].stalls {
				if !at.IsZero() {
					count++
				}
			}
			if count != 1 {
				t.Errorf("a cut of %v counts %d times on %d connections", cut, count, len(conns))
			}
		}
	}
}

// A link that is down half of the time is found out on any number of connections, of which some
// may stall at any time.
func TestShortCutsBehindTCP(t *testing.T) {
	const ms = time.Millisecond
	for _, down := range []time.Duration{400 * ms, 600 * ms, 900 * ms} {
		for n := 1; n <= 16; n *= 2 {
			var conns []*wired
			for i := range n {
				conns = append(conns, &wired{from: time.Duration(i) * 70 * ms, every: 50 * ms})
			}
			up := func(now time.Duration) bool { return now%(2*down) >= down }
			if w := over(15*time.Second, up, conns...); !w.unsteady() {
				t.Errorf("%d connections over a link that is down for %v again and again: not found out", n, down)
			}
		}
	}
}

// A member whose own uplink is full acknowledges late what is sent to it, however idle the
// connection is that it comes on. Its link does not come and go.
func TestAFullUplinkIsNoStall(t *testing.T) {
	const ms = time.Millisecond
	for _, queue := range []time.Duration{400 * ms, 600 * ms, 1000 * ms, 1500 * ms, 2400 * ms} {
		idle, full := &told{Acks: Acks{Trip: 20 * ms}}, &told{Acks: Acks{Trip: queue}}
		w := watch(idle, full)
		pass := func(d time.Duration) {
			for ; d > 0; d -= stallLook {
				full.Came++
				full.Count++
				w.pass(stallLook)
			}
		}
		for range 10 {
			idle.Waiting = true
			pass(queue)
			idle.Waiting = false
			idle.Count++
			idle.Came++
			idle.Trip = idle.Trip*7/8 + queue/8 // as TCP smooths it
			if pass(200 * ms); w.hangs() || w.unsteady() {
				t.Fatalf("a queue of %v: hangs: %v, comes and goes: %v", queue, w.hangs(), w.unsteady())
			}
		}
	}
}

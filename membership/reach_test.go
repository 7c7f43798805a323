package membership

import (
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// says is an ALIVE of another peer that stands where m does and has connections to some.
func (p *labPeer) says(from *labPeer, reaches ...*labPeer) {
	a := wire.Alive{
		Branch: p.m.chain.Branch(), Height: p.m.chain.Height(), Tip: p.m.chain.TipHash(), Synced: true,
		Applied: p.m.chain.Height(), Contributes: true,
	}
	for _, q := range reaches {
		a.Reaches, a.Links = append(a.Reaches, q.id), append(a.Links, slot.LinkDirect)
	}
	_ = p.m.Step(p.lab.now, labSigned(from, a))
}

func (p *labPeer) sees(of *labPeer) bool { return p.m.presence.around(memberKey{of.id, of.inc}) }

// pass lets time go by for one machine alone, which nobody answers.
func (p *labPeer) pass(d time.Duration) {
	for end := p.lab.now + d; p.lab.now < end; {
		p.lab.now += labTiming.tick()
		p.m.Tick(p.lab.now)
		p.m.Ready()
	}
}

// TestGoneIsWhoseConnectionBroke: A loses its connection to B.
func TestGoneIsWhoseConnectionBroke(t *testing.T) {
	broken := func(a, b *labPeer) { a.m.Report(a.lab.now, ReportConnected{Peer: b.id}) }
	for name, c := range map[string]struct {
		events func(a, b *labPeer)
		around bool
	}{
		"all is well":     {func(_, _ *labPeer) {}, true},
		"broken":          {broken, false},
		"and again there": {func(a, b *labPeer) { a.flap(b) }, true},
		"B was still under way": {func(a, b *labPeer) {
			broken(a, b)
			a.pass(labTiming.Gone / 2)
			a.says(b)
		}, false},
		"B is heard all the same": {func(a, b *labPeer) {
			broken(a, b)
			a.pass(labTiming.Gone + labTiming.Gone/2)
			a.says(b)
		}, true},
		"never connected": {func(a, _ *labPeer) {
			a.m.Report(a.lab.now, ReportConnected{Peer: a.lab.peers[2].id})
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := labOf(t, "ABC")
			a, b := l.peers[0], l.peers[1]
			a.says(b)
			c.events(a, b)
			a.pass(2 * labTiming.Gone)
			if got := a.sees(b); got != c.around {
				t.Errorf("around: %v, want %v", got, c.around)
			}
		})
	}
}

// flap loses a connection for less than Timing.Gone.
func (p *labPeer) flap(to *labPeer) {
	p.m.Report(p.lab.now, ReportConnected{Peer: to.id})
	p.pass(labTiming.Gone / 2)
	p.m.Report(p.lab.now, ReportConnected{Peer: to.id, Connected: true})
}

// TestNewsOfConnectionsTravelAtOnce, but not as often as a link flaps.
func TestNewsOfConnectionsTravelAtOnce(t *testing.T) {
	l := labOf(t, "ABC")
	a, b := l.peers[0], l.peers[1]
	alives := func(d time.Duration, up bool) (n int) {
		a.m.Report(l.now, ReportConnected{Peer: b.id, Connected: up})
		for end := l.now + d; l.now < end; l.now += 5 * time.Millisecond {
			a.m.Tick(l.now)
			for _, e := range a.m.Ready().Send {
				if s, ok := e.Body.(wire.Alive); ok {
					if n++; slices.Contains(s.Reaches, b.id) != up {
						t.Errorf("connected %v, announced %v", up, s.Reaches)
					}
				}
			}
		}
		return n
	}
	a.m.Tick(l.now)
	a.m.announcer.alive()
	a.m.Ready()
	if n := alives(labTiming.Gone, false); n != 1 {
		t.Errorf("%d ALIVEs after a connection broke", n)
	}
	n := 0
	for i := range 50 { // a second
		n += alives(20*time.Millisecond, i%2 == 0)
	}
	if most := int(time.Second/(labTiming.Gone/2)) + 1; n > most {
		t.Errorf("%d ALIVEs in a second, at most %d are due", n, most)
	}
}

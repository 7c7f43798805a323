package membership

import (
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// A run says in time that its past outgrows what newcomers take, once; and once when it has.
func TestAPastThatGrowsTooLargeIsTold(t *testing.T) {
	ps := &pastSize{facts: newFacts(Config{}, 1), effects: &effects{}}
	for _, c := range []struct {
		bytes int
		want  string
	}{
		{74e6, ""},
		{76e6, "after about 480 more changes of who votes no new peer can join"},
		{90e6, ""},
		{101e6, "at most: no new peer can join"},
		{102e6, ""},
		{10e6, ""}, // another branch
		{80e6, "after about 400 more"},
	} {
		ps.takes = c.bytes
		ps.judge(100e6, 50_000)
		events := ps.drain().Events
		switch {
		case c.want == "" && len(events) > 0:
			t.Errorf("%d bytes: %s", c.bytes, events[0].Detail)
		case c.want != "" && (len(events) != 1 || events[0].Kind != EventLarge ||
			!strings.Contains(events[0].Detail, c.want)):
			t.Errorf("%d bytes: %v", c.bytes, events)
		}
	}
}

// How many changes of who votes there is room for goes by the newest links, and not by the last
// one, which may be a short one.
func TestRoomForChangesGoesByTheNewestLinks(t *testing.T) {
	links := [][]byte{make([]byte, 1<<20)}
	for range recentLinks / 2 {
		links = append(links, make([]byte, 100), make([]byte, 292))
	}
	if got := meanLink(links); got != 200 {
		t.Errorf("links of 104 and 296 bytes have %d", got)
	}
	if got := meanLink(nil); got != 0 {
		t.Errorf("no links have %d bytes", got)
	}
}

// The size in a view is that of what a newcomer gets, also after a restart.
func TestPastSizeIsWhatNewcomersGet(t *testing.T) {
	l := forgetful(t, true)
	p := l.peers[0]
	for range 2 {
		past, records, err := wire.UnpackPast(packedPast(t, p))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := p.view().PastBytes, wire.PastSize(past, records); got != want || got < 1000 {
			t.Errorf("%d bytes, of %d that a newcomer gets", got, want)
		}
		p.crash()
		p.start()
	}
}

// packedPast is what a peer sends to newcomers.
func packedPast(t *testing.T, p *labPeer) (all []byte) {
	t.Helper()
	for part, parts := uint32(0), uint32(1); part < parts; part++ {
		p.m.drain()
		if err := p.m.catchup.past.show("newcomer", part); err != nil {
			t.Fatal(err)
		}
		for _, s := range p.m.drain().Send {
			if b, ok := s.Body.(wire.PastPart); ok {
				all, parts = append(all, b.Data...), b.Parts
			}
		}
	}
	return all
}

package statesync

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// holder opens streams to a server under any name.
type holder struct {
	t *testing.T
	s *Server
	n peers
}

func (h *holder) open(from slot.PeerID) *conn {
	h.n.serve = serves{"s": func(st wire.Stream) { h.s.Serve(from, st) }}
	st, err := h.n.Open(h.t.Context(), "s")
	if err != nil {
		h.t.Fatal(err)
	}
	return &conn{s: st, zip: h.s.zip, timeout: time.Minute}
}

// Streams that nothing is asked on give way to others.
func TestIdleStreamsGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, testShape)
		put(t, s, 1)
		h := &holder{t: t, s: server(t, s, ServerConfig{Streams: 4})}
		var hold []*conn
		for _, p := range []slot.PeerID{"a", "b", "c", "d"} {
			c := h.open(p)
			if _, err := c.list(); err != nil {
				t.Fatal(err)
			}
			hold = append(hold, c)
		}
		if _, err := h.open("e").list(); !errors.Is(err, errBusy) {
			t.Errorf("a fifth stream at once: %v", err)
		}
		time.Sleep(idleGrace / 2)
		if _, err := hold[0].list(); err != nil { // a is not the longest idle any more
			t.Fatal(err)
		}
		time.Sleep(idleGrace/2 + time.Millisecond)
		if _, err := h.open("e").list(); !errors.Is(err, errBusy) {
			t.Errorf("the stream that makes room: %v", err)
		}
		synctest.Wait()
		last := h.open("e")
		if _, err := last.list(); err != nil {
			t.Errorf("after that: %v", err)
		}
		if _, err := hold[0].list(); err != nil {
			t.Errorf("the one that asks now and then: %v", err)
		}
		cut := 0
		for _, c := range hold[1:] {
			if _, err := c.list(); err != nil {
				cut++
			}
		}
		if cut != 1 {
			t.Errorf("%d idle streams were cut", cut)
		}
		for _, c := range append(hold, last) {
			c.close(nil)
		}
		_ = h.s.Close()
		h.n.wg.Wait()
	})
}

// However many strangers come, members are served.
func TestMembersAreServedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, testShape)
		put(t, s, 1)
		member := func(p slot.PeerID) bool { return p[0] == 'm' }
		h := &holder{t: t, s: server(t, s, ServerConfig{Streams: 4, Prefer: member})}
		var hold []*conn
		try := func(p slot.PeerID) bool {
			c := h.open(p)
			hold = append(hold, c)
			_, err := c.list()
			return err == nil
		}
		if !try("x1") || !try("x2") || try("x3") {
			t.Error("strangers get other than half of the streams")
		}
		if !try("m1") || !try("m2") || try("m3") {
			t.Error("members get other than the rest")
		}
		if h.s.admission.mu.others != 2 || h.s.admission.mu.served != 4 {
			t.Errorf("counted %d of %d", h.s.admission.mu.others, h.s.admission.mu.served)
		}
		for _, c := range hold {
			c.close(nil)
		}
		_ = h.s.Close()
		h.n.wg.Wait()
		if h.s.admission.mu.others != 0 || h.s.admission.mu.served != 0 || len(h.s.admission.mu.idle) != 0 {
			mu := &h.s.admission.mu
			t.Errorf("after the end %d, %d, %d are counted", mu.others, mu.served, len(mu.idle))
		}
	})
}

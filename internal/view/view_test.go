package view

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// done is a contribution whose inner steps took two seconds each.
func done(slotNumber uint64, steps uint32) *p2pdiloco.ContributionStatus {
	return &p2pdiloco.ContributionStatus{Slot: slotNumber, Steps: steps, StepTime: 2 * time.Second}
}

// A stage says how far the slot is, and how long the rest takes at the speed until now.
func TestStage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		me := p2pdiloco.MemberStatus{Self: true, State: "training", Steps: 15, Assigned: 20, Contribution: done(4, 20)}
		slow := p2pdiloco.MemberStatus{Peer: "s", State: "training", Steps: 2, Assigned: 20, Contribution: done(4, 20)}
		ready := p2pdiloco.MemberStatus{Self: true, State: "offered"}
		combined := p2pdiloco.ExchangeStatus{Now: &p2pdiloco.SlotTime{Slot: 5, Expected: 9 * time.Second}}
		var beside clock
		for _, c := range []struct {
			members  []p2pdiloco.MemberStatus
			exchange p2pdiloco.ExchangeStatus
			left     float64
			text     string
		}{
			{[]p2pdiloco.MemberStatus{me, slow}, p2pdiloco.ExchangeStatus{}, 10, "slot 5: this peer trains"},
			{[]p2pdiloco.MemberStatus{me, slow}, combined, 10, "trains; beside it slot 5: what"},
			{[]p2pdiloco.MemberStatus{ready, slow}, p2pdiloco.ExchangeStatus{}, 36, "1 of 2 members train"},
			{[]p2pdiloco.MemberStatus{ready}, p2pdiloco.ExchangeStatus{}, 0, "this peer is ready for it"},
			{[]p2pdiloco.MemberStatus{ready}, combined, 6, "what the peers learnt is combined"},
		} {
			s := p2pdiloco.Status{Phase: p2pdiloco.PhaseRunning, Slot: 4, Members: c.members, Exchange: c.exchange}
			got, left := stageOf(s, &beside), 0.
			if got.LeftSeconds != nil {
				left = *got.LeftSeconds
			}
			if left != c.left || !strings.Contains(got.Text, c.text) {
				t.Errorf("%+v, %v s left; want %v s, %s", got, left, c.left, c.text)
			}
			time.Sleep(time.Second) // the exchange is under way since the second case
		}
	})
}

// What is wrong with a member is said in sentences, with what to do.
func TestWarnings(t *testing.T) {
	s := p2pdiloco.Status{
		Stats: p2pdiloco.StatsStatus{Slot: 7},
		Members: []p2pdiloco.MemberStatus{
			{
				Peer: "a", Self: true, State: "training", Seat: 1, Contribution: done(7, 30),
				Says: &p2pdiloco.Claims{Name: "attic\x1b[2J", Version: "1"},
			},
			{
				Peer: "b", State: "late", Contribution: done(7, 10),
				Path: &p2p.Path{Way: p2p.WayDirect, Transport: "quic-v1"}, Rate: 99,
			},
			{
				Peer: "c", State: "idle", Path: &p2p.Path{Way: p2p.WayRelayed, Relay: "a"}, Contribution: done(3, 99),
				Rate: 1200,
			},
			{
				Peer: "d", State: "mute", Fault: "has not voted for 8 heights", Heard: time.Minute,
				Path:      &p2p.Path{Way: p2p.WayRelayed, Limited: true},
				StandsOut: []p2pdiloco.Finding{{Words: "sends nothing new", Since: 2}},
			},
			{Peer: "e", State: "training", Leader: true, Heard: time.Second},
		},
	}
	all := membersOf(s)
	for i, want := range []string{
		"",
		"It is late: most others have offered their part of the slot.",
		"Its bytes go through " + slot.PeerID("a").Short() + " at 1.2 MB/s, which is slower than a direct way: " +
			"open a TCP and a UDP port on one of the two sides (p2pdiloco doctor says how).",
		"It has not voted for 8 heights. It sends nothing new, since slot 2. Only relay another peer leads to it, " +
			"which lets small things pass and no contribution: open a TCP and a UDP port on one of the two sides, or " +
			"run p2pdiloco bootstrap --relay where both reach it.",
		"There is no connection from here to it now.",
	} {
		if got := strings.Join(all[i].Warnings, " "); got != want {
			t.Errorf("member %d: %q, want %q", i, got, want)
		}
	}
	if me, b, c := all[0], all[1], all[2]; *me.Share != .75 || *b.Share != .25 || c.Share != nil || c.Contributes ||
		!b.Contributes || me.Name != "attic[2J" || me.Says.Version != "1" || b.Says != nil ||
		c.Rate != 1200 || b.Rate != 0 || me.Way != waySelf || b.Way != "direct" || b.Transport != "quic" ||
		me.Role != "elector" {
		t.Errorf("%+v %+v %+v", me, b, c)
	}
	if d, e := all[3], all[4]; d.HeardAgo != 60 || e.HeardAgo != 0 || e.Way != wayNone || e.Role != "leader" {
		t.Errorf("%+v %+v", d, e)
	}
}

// A table of members says of each how it is reached.
func TestWaysToMembers(t *testing.T) {
	for _, c := range []struct {
		member p2pdiloco.MemberStatus
		want   string
	}{
		{p2pdiloco.MemberStatus{Self: true}, "itself"},
		{p2pdiloco.MemberStatus{}, "not connected"},
		{
			p2pdiloco.MemberStatus{Path: &p2p.Path{Way: p2p.WayDirect, Transport: "quic-v1", RTT: time.Second}},
			"direct quic 1000 ms",
		},
		{p2pdiloco.MemberStatus{Path: &p2p.Path{Way: p2p.WayPunched, Transport: "tcp"}}, "punched tcp"},
		{p2pdiloco.MemberStatus{Path: &p2p.Path{Way: p2p.WayRelayed, Relay: "relay"}, Rate: 1200}, "relayed 1.2 MB/s"},
	} {
		if got := way(memberOf(c.member)); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// The first thing that a view says is what is waited for.
func TestHeadline(t *testing.T) {
	for _, c := range []struct {
		status      p2pdiloco.Status
		waits, want string
	}{
		{p2pdiloco.Status{Phase: p2pdiloco.PhaseRunning, Slot: 3}, "slot 4 waits for x", "slot 4 waits for x"},
		{p2pdiloco.Status{Phase: p2pdiloco.PhaseRunning, Slot: 3}, "", "slot 4: this peer is ready for it"},
		{p2pdiloco.Status{Phase: p2pdiloco.PhaseEnded, Detail: "agreed"}, "still waiting: agreed", "agreed"},
		{
			p2pdiloco.Status{Phase: p2pdiloco.PhasePaused, Reason: "a\nb"},
			"still waiting: a\u202e b",
			"still waiting: a b",
		},
	} {
		if v := build(c.status, c.waits, &clock{}); v.Now.Headline != c.want || v.Agreement != nil {
			t.Errorf("%+v, want %q", v.Now, c.want)
		}
	}
	lost := p2pdiloco.Status{
		RunID: slot.Root{1}, Ballot: 2*slot.Tries + 1, Spec: map[string]string{"trust": "byzantine"},
		Members: []p2pdiloco.MemberStatus{ // the three that vote and are not removed decide
			{Peer: "p", Seat: 1}, {Peer: "q", Seat: 1}, {Peer: "r", Seat: 1}, {Peer: "s", Seat: 1}, {Peer: "t"},
		},
		Motions: []p2pdiloco.MotionStatus{
			{Action: "remove", Peer: "q", By: []slot.PeerID{"p", "t"}},
			{Action: "rotate", Enough: true},
		},
	}
	a := build(lost, "", &clock{}).Agreement
	if a.TermsLost != 2 || a.Terms != "2 at this height: a leader has failed" || len(a.Motions) != 2 ||
		a.Motions[0].Lacks != 1 || a.Motions[1].Lacks != 0 {
		t.Errorf("%+v", a)
	}
}

// How many terms were lost is said of this height and of those before, with who led them.
func TestTermsLost(t *testing.T) {
	before := []p2pdiloco.MemberStatus{{Peer: "a", TermsLost: 2}, {Peer: "b"}, {Peer: "c", TermsLost: 1}}
	for _, c := range []struct {
		ballot  uint32
		members []p2pdiloco.MemberStatus
		all     uint64
		want    string
	}{
		{slot.Tries - 1, before[1:2], 0, "none at the newest 64 heights"},
		{0, before, 3, "none at this height; at the newest 64: 2 by 2g, 1 by 2i"},
		{slot.Tries, before, 4, "1 at this height: a leader has failed; at the newest 64: 2 by 2g, 1 by 2i"},
	} {
		all, text := termsLost(p2pdiloco.Status{Ballot: c.ballot, Members: c.members})
		if all != c.all || text != c.want {
			t.Errorf("%+v: %d, %s", c, all, text)
		}
	}
}

// A history has each slot once, whenever its loss was measured, is thinned from the old end, and
// tells what has changed.
func TestHistory(t *testing.T) {
	var h history
	at := func(n uint64, train, held float64, of uint64) {
		s := p2pdiloco.Status{RunID: slot.Root{1}, Stats: p2pdiloco.StatsStatus{Slot: n, TrainLoss: &train}}
		if of > 0 {
			s.Stats.Loss, s.Stats.LossSlot = &held, of
		}
		h.addStatus(s)
	}
	at(1, 4, 0, 0)
	at(2, 3, 0, 0)
	at(2, 2.5, 3.9, 1) // the training loss is that of a round that goes on
	seen := h.version
	at(2, 2.5, 3.9, 1)
	if len(h.listChanged(seen)) != 0 || len(h.points) != 2 || *h.points[0].Loss != 3.9 ||
		h.points[0].TrainLoss != nil ||
		*h.points[1].TrainLoss != 3 {
		t.Errorf("%+v", h)
	}
	at(2, 2.5, 2.9, 2)
	if changed := h.listChanged(seen); len(changed) != 1 || changed[0].Slot != 2 {
		t.Errorf("%+v", changed)
	}
	for n := range uint64(10_000) {
		at(n+3, 1, 1, n+3)
	}
	n := len(h.points)
	if n > MaxPoints || n < MaxPoints/2 || h.points[0].Slot > 2 || h.points[n-2].Slot != 10_001 ||
		h.points[n-1].Slot != 10_002 {
		t.Errorf("%d points from %d to %d", n, h.points[0].Slot, h.points[n-1].Slot)
	}
	if text, err := json.Marshal(h.listChanged(0)); err != nil || len(text) > 400_000 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

// A metrics file has the slots since the run was joined, and the tokens of all; the status adds
// nothing to it.
func TestMetrics(t *testing.T) {
	var h history
	for _, line := range []string{
		`{"slot":3,"time":"2026-01-02T03:04:05Z","loss":2,"held_out_loss":4,"held_out_slot":2,"run_tokens":9,"norm":7}`,
		`{"slot":4,"time":"2026-01-02T03:05:05Z","held_out_loss":3,"held_out_slot":3,"run_tokens":12}`,
		`{"slot":5,"ti`,
	} {
		h.takeLine([]byte(line))
	}
	for _, s := range []p2pdiloco.StatsStatus{
		{Slot: 9, Loss: new(2.5), LossSlot: 4}, {Slot: 9, Loss: new(2.), LossSlot: 9},
	} {
		h.addStatus(p2pdiloco.Status{RunID: slot.Root{1}, Stats: s})
	}
	text, err := json.Marshal(h.listChanged(0))
	want := `[[2,1767323045,9,4,null,null],[3,1767323045,9,3,2,7],[4,1767323105,12,2.5,null,0]]`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
}

// Events are read as the API has them. Those that are for scripts are left out, members have their
// short names, and a text has no second line.
func TestEvents(t *testing.T) {
	var all events
	names := map[string]string{"12D3KooWGRUKWRYAYXPn1hTvi8N5gRvHQ5x7oWgpGnvEMBLUFxAv": "attic"}
	for i := range maxEvents + 3 {
		var e p2pdiloco.Event
		line := `{"time":"2026-01-02T03:04:05Z","event":"peer.left","height":9007199254740993}`
		err := json.Unmarshal([]byte(line), &e)
		if err != nil || e.Name != "peer.left" || e.Fields["height"] != json.Number("9007199254740993") {
			t.Fatal(e, err)
		}
		text := map[bool]string{true: "12D3KooWGRUKWRYAYXPn1hTvi8N5gRvHQ5x7oWgpGnvEMBLUFxAv has left\nsee docs"}[i != 1]
		all.add(e, text, i == 0, names)
	}
	kept := all.listAfter(0)
	if len(kept) != maxEvents || kept[0].Text != "attic LUFxAv has left" || all.number != maxEvents+2 ||
		len(all.listAfter(all.number-1)) != 1 {
		t.Errorf("%d events, %+v", len(kept), kept[0])
	}
	for _, line := range []string{``, `[]`, `{}`, `{"event":"x"}`, `{"time":"2026-01-02T03:04:05Z"}`} {
		var e p2pdiloco.Event
		if json.Unmarshal([]byte(line), &e) == nil {
			t.Errorf("%s is %+v", line, e)
		}
	}
}

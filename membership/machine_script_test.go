package membership

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// TestScripts replays testdata/machine: schedules against real machines. The language is what
// script's switch says.
func TestScripts(t *testing.T) {
	t.Parallel()
	slow := []string{"silent-newcomers", "newcomers-promise", "fork-old-heavy"} // half of the time
	datadriven.Walk(t, "testdata/machine", func(t *testing.T, path string) {
		if slices.Contains(slow, filepath.Base(path)) && !testutil.Nightly() {
			t.Skip("at night")
		}
		var l *lab
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "peers" {
				l = startLab(t, d)
				return ""
			}
			out := l.script(t, d)
			for _, f := range l.watch.faults {
				t.Errorf("%s: after %q: %s", d.Pos, d.Cmd, f)
			}
			return out
		})
	})
}

func startLab(t *testing.T, d *datadriven.TestData) *lab {
	rules := labRules()
	n := number(d, "n", 3)
	rules.StartPeers, rules.MinPeers = number(d, "start-peers", n), number(d, "min-peers", 1)
	rules.LastSlot, rules.MaxStaleness = uint64(number(d, "last-slot", 0)), uint64(number(d, "staleness", 0))
	rules.Private = number(d, "private", 0) > 0
	rules.AuditSamples = number(d, "audit", 8) // in trust byzantine
	rules.Byzantine, rules.NewcomerShare = number(d, "byzantine", 0) > 0, uint64(number(d, "share", 500))
	for _, f := range text(d, "founders") {
		rules.Founders = append(rules.Founders, labID(string(f)))
	}
	rules.Rings = number(d, "rings", 0) > 0
	rules.Fragments = labFragments(number(d, "fragments", 1))
	timing := labTiming
	timing.ForkAfter, _ = time.ParseDuration(text(d, "fork-after")) // 0: nobody forks by itself
	if gone, err := time.ParseDuration(text(d, "gone")); err == nil {
		timing.Gone = gone
	}
	l := newLab(t, rules, timing)
	l.open, l.seeded = number(d, "open", 0) > 0, number(d, "seeded", 0) > 0
	l.shuffle(number(d, "salt", 0))
	for i := range n {
		l.add(string(rune('A' + i)))
	}
	l.connect()
	return l
}

func number(d *datadriven.TestData, key string, or int) int {
	if s, ok := value(d, key); ok {
		if n, err := strconv.Atoi(s); err == nil {
			return n
		}
	}
	return or
}

func value(d *datadriven.TestData, key string) (string, bool) {
	for _, a := range d.CmdArgs {
		if a.Key == key && len(a.Vals) > 0 {
			return strings.Join(a.Vals, ","), true
		}
	}
	return "", false
}

func text(d *datadriven.TestData, key string) string { s, _ := value(d, key); return s }

// named lists the peers that a command names without a key.
func (l *lab) named(d *datadriven.TestData) (ps []*labPeer) {
	for _, a := range d.CmdArgs {
		if p := l.peer(a.Key); p != nil && len(a.Vals) == 0 {
			ps = append(ps, p)
		}
	}
	return ps
}

func (l *lab) script(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "run":
		// run until=slot:2|height:3|members:ABC|electors:AB|removed:C|done|left:A [limit=30s]:
		// virtual time passes
		return l.runUntil(t, d)
	case "tick": // tick 2s: that much virtual time passes
		pause, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			t.Fatal(err)
		}
		l.rests(pause)
	case "crash": // crash A B: what was not persisted is gone
		for _, p := range l.named(d) {
			p.crash()
		}
	case "restart":
		for _, p := range l.named(d) {
			p.start()
		}
	case "lose-disk": // crash, and the disk is blank: another incarnation
		for _, p := range l.named(d) {
			p.crash()
			p.format()
		}
	case "join": // join D: a newcomer with an empty disk
		for _, a := range d.CmdArgs {
			l.add(a.Key)
		}
		l.connect()
	case "leave":
		for _, p := range l.named(d) {
			p.report(ReportLeave{})
		}
	case "drop", "hold": // drop from=A to=B,C type=vote n=1: empty fields match all
		l.filters = append(l.filters, &labFilter{
			from: text(d, "from"), to: text(d, "to"), kind: text(d, "type"), left: number(d, "n", -1),
			hold: d.Cmd == "hold",
		})
	case "heal": // no filters any more; what they held stays held
		l.filters = nil
		l.connect()
	case "notice":
		// notice [A B]: they, or all, see which connections there are: those of crashed peers are
		// reset
		l.connect(l.named(d)...)
	case "recover": // recover A: its operator orders it to go on without a quorum
		for _, p := range l.named(d) {
			p.report(ReportRecover{})
		}
	case "manual": // messages are held until deliver, and no time passes
		l.manual = true
	case "auto":
		l.manual, l.held = false, nil
	case "deliver":
		// deliver from=A to=B type=vote: once each, in order; what they lead to is held again
		return l.deliver(d)
	case "set":
		// set A slowness=2s | idle | broken | whole | stuck | loose | mute | speaks | usurps |
		// trickle | unfed | fed | bare | keyless | keyed | never-founds
		return l.set(t, d)
	case "flip": // flip A: its model state differs from now on
		for _, p := range l.named(d) {
			h, s, _ := p.state()
			s.root = slot.Hash(s.root[:])
			p.states[h] = s
			p.m.model.state.root = s.root
		}
	case "over":
		// over A C ballot=16: for them the leader has had its time, and so have those up to that
		// ballot
		for _, p := range l.named(d) {
			if ballot := number(d, "ballot", 0); ballot > 0 {
				p.m.acceptor.reach(uint32(ballot))
			} else {
				p.m.pacemaker.next()
			}
			p.flush()
		}
	case "unheard": // unheard by=A of=C: A takes C for lost
		by := l.peer(text(d, "by"))
		for _, e := range by.m.chain.Electorate() {
			if strings.Contains(text(d, "of"), labName(e.Peer)) {
				by.m.presence.known[ofMember(e)].heard = never
			}
		}
	case "offer": // offer A: its trainer is ready at once
		for _, p := range l.named(d) {
			s := p.m.chain.OpenSlot()
			p.offer(s)
		}
	case "accuse": // accuse by=A of=CD [reason=4]: A's engine loses them
		by := l.peer(text(d, "by"))
		for _, of := range text(d, "of") {
			reason := wire.LostReason(number(d, "reason", int(wire.LostConnection)))
			by.report(ReportLost{
				Group: by.m.open.groupReports.group, Peer: labID(string(of)), Reason: reason,
				Round: by.m.open.last.Round(),
			})
		}
	case "want": // want A B remove=C readmit=D rotate: what their operators want now
		l.want(d)
	case "follow": // follow A of=B: from its next start A makes B's orders its own
		for _, p := range l.named(d) {
			p.follows = append(p.follows, labID(text(d, "of")))
		}
	case "access": // the removed peers, what is wanted, and the secrets
		return l.showAccess()
	case "secret": // the peers that hold the newest secret
		return strings.Join(l.heldBy(l.named(d)[0].m.View().Key), "") + "\n"
	case "record": // record A height=5: its ranges, and their contributors
		return l.record(d)
	case "order": // the leaders of terms 0, 1, …
		return labNames(peersOf(l.named(d)[0].m.open.order))
	case "votes": // what the acceptors have on disk at the open height
		return l.showWords()
	case "shelf": // words kept about places on chains given up
		return fmt.Sprintf("%d\n", len(l.named(d)[0].m.pledges.kept))
	case "drafts": // of members records, seen at the open height
		return fmt.Sprintf("%d\n", l.named(d)[0].m.open.drafts)
	case "roster": // the tip's members, each with the height it is a member since
		return l.roster(d)
	case "why": // why C: what keeps it from being a member
		return l.named(d)[0].m.View().Reason + "\n"
	case "branch": // branch C: why its branch may still end
		return l.named(d)[0].m.View().Provisional + "\n"
	case "show":
		return l.show()
	case "events": // events [of=run.joined,…]: since the last time
		return l.events(d)
	default:
		t.Fatalf("unknown command %q", d.Cmd)
	}
	return ""
}

func (l *lab) roster(d *datadriven.TestData) string {
	var out strings.Builder
	c := l.named(d)[0].m.chain
	for _, e := range c.Members() {
		fmt.Fprintf(&out, "%s since %d", labName(e.Peer), e.Since)
		if l.rules.Byzantine {
			fmt.Fprintf(&out, ", seat since %d, credit %d", e.Seat, e.Credit)
		}
		out.WriteByte('\n')
	}
	for _, e := range c.Tip().Absent {
		fmt.Fprintf(&out, "%s since %d, absent, credit %d\n", labName(e.Peer), e.Since, e.Credit)
	}
	return out.String()
}

func (l *lab) record(d *datadriven.TestData) string {
	var out strings.Builder
	r := l.named(d)[0].m.chain.At(uint64(number(d, "height", 0)))
	if len(l.rules.Fragments) > 1 {
		fmt.Fprintf(&out, "slot %d, fragment %d\n", r.Slot, r.Fragment)
	}
	out.WriteString(decisionText(r))
	for _, s := range r.Segments {
		var names []slot.PeerID
		for i, o := range r.Contributions {
			if s.Contributors.Has(i) {
				names = append(names, o.Peer)
			}
		}
		fmt.Fprintf(&out, "%d..%d %s\n", s.Range.Begin, s.Range.End, labNames(names))
	}
	return out.String()
}

func (l *lab) runUntil(t *testing.T, d *datadriven.TestData) string {
	limit := 60 * time.Second
	if s := text(d, "limit"); s != "" {
		limit, _ = time.ParseDuration(s)
	}
	what, arg, _ := strings.Cut(text(d, "until"), ":")
	n, _ := strconv.ParseUint(arg, 10, 64)
	all := func(ok func(p *labPeer, v View) bool) bool {
		return !slices.ContainsFunc(l.peers, func(p *labPeer) bool { return p.up() && !ok(p, p.m.View()) })
	}
	done := map[string]func() bool{
		"slot":    func() bool { return all(func(_ *labPeer, v View) bool { return v.Synced && v.AppliedSlot >= n }) },
		"height":  func() bool { return all(func(_ *labPeer, v View) bool { return v.Synced && v.Applied >= n }) },
		"done":    func() bool { return all(func(_ *labPeer, v View) bool { return v.Done || v.Left }) },
		"left":    func() bool { return l.peer(arg).m.View().Left },
		"moved":   func() bool { return l.peer(arg).m.View().ChainSwitches > 0 },
		"forked":  func() bool { return l.peer(arg).m.View().Tip.Kind == slot.Fork },
		"paused":  func() bool { return l.peer(arg).m.View().Paused },
		"removed": func() bool { return all(func(_ *labPeer, v View) bool { return labNames(v.Removed) == arg }) },
		"members": func() bool {
			return all(func(_ *labPeer, v View) bool { return labNames(peersOf(v.Tip.Members)) == arg })
		},
		"electors": func() bool {
			return all(func(_ *labPeer, v View) bool { return labNames(peersOf(v.Tip.Electors())) == arg })
		},
	}[what]
	if done == nil {
		t.Fatalf("run until %q?", what)
	}
	if !l.run(limit, done) {
		return fmt.Sprintf("not within %v\n", limit) + l.show()
	}
	return ""
}

// deliver hands over what is held and matches. Refusals are shown.
func (l *lab) deliver(d *datadriven.TestData) string {
	f := labFilter{from: text(d, "from"), to: text(d, "to"), kind: text(d, "type")}
	var out strings.Builder
	held := l.held
	l.held = nil
	for _, m := range held {
		kind := strings.ToLower(wire.TypeName(m.msg.Body.Type()))
		if !f.matches(labName(m.msg.From), m.to.name, kind) {
			l.held = append(l.held, m)
			continue
		}
		fmt.Fprintf(&out, "%s %s->%s", kind, labName(m.msg.From), m.to.name)
		if err := m.to.step(m.msg); err != nil {
			fmt.Fprintf(&out, ": %v", err)
		}
		if !m.to.up() {
			out.WriteString(": down")
		}
		out.WriteByte('\n')
		if _, keep := value(d, "keep"); keep {
			l.held = append(l.held, m)
		}
	}
	return out.String()
}

func (l *lab) set(t *testing.T, d *datadriven.TestData) string {
	for _, p := range l.named(d) {
		for _, a := range d.CmdArgs {
			switch a.Key {
			case "slowness":
				p.slowness, _ = time.ParseDuration(a.Vals[0])
			case "idle":
				train(false, p)
			case "never-founds":
				p.never = true
			case "broken":
				p.broken = true
			case "whole":
				p.broken = false
			case "stuck":
				p.stuck = true
			case "loose": // what it would have stated by now it states
				p.stuck = false
				if plan := p.m.open.plan; plan != nil {
					p.reduce(WorkReduce{Plan: *plan, Share: p.m.chain.Share(plan.Offers)})
				}
			case "mute":
				p.mute = true
			case "usurps": // its drafts list itself alone
				p.usurps = true
			case "speaks":
				p.mute = false
			case "trickle": // it gets a few bytes now and then, whatever else happens
				p.trickle = 1
			case "unfed":
				p.unfed = true
			case "keyless": // gets no secret for a draft
				p.keys.deaf = true
			case "keyed":
				p.keys.deaf = false
			case "dry": // no bytes come any more
				p.trickle = 0
			case "fed":
				p.unfed = false
			case "bare": // what was reduced has gone from its disk
				p.segments = map[slot.Root]bool{}
			default:
				if l.peer(a.Key) == nil {
					t.Fatalf("set what? %q", a.Key)
				}
			}
		}
	}
	return ""
}

func (l *lab) show() string {
	var out strings.Builder
	for _, p := range l.peers {
		if !p.up() {
			fmt.Fprintf(&out, "%s down\n", p.name)
			continue
		}
		v := p.m.View()
		fmt.Fprintf(&out, "%s height=%d slot=%d %s members=%s applied=%d ballot=%d", p.name, v.Tip.Height, v.Tip.Slot,
			v.Tip.Kind, labNames(peersOf(v.Tip.Members)), v.Applied, v.Ref.Ballot)
		for _, x := range []struct {
			name string
			is   bool
		}{
			{"newcomer", !v.IsMember},
			{"unsynced", !v.Synced},
			{"diverged", v.Diverged},
			{"paused", v.Paused},
			{"left", v.Left},
			{"done", v.Done},
			{"missed", v.Missed},
		} {
			if x.is {
				out.WriteString(" " + x.name)
			}
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// showWords shows what binds the acceptors: the promised ballot, the ballot and record of the first
// vote (HAVE), and those of the second, which is the lock.
func (l *lab) showWords() string {
	var out strings.Builder
	for _, p := range l.peers {
		if !p.up() {
			fmt.Fprintf(&out, "%s down\n", p.name)
			continue
		}
		w := p.m.pledges.open
		fmt.Fprintf(&out, "%s height=%d", p.name, p.m.open.ref.Height)
		if w.Promise != nil {
			fmt.Fprintf(&out, " promised=%d", w.Promise.Ballot)
		}
		if h := w.Have; h != nil {
			fmt.Fprintf(&out, " have=%d for %s", h.Ballot, recordText(h.Record))
		}
		if v := w.Vote; v != nil {
			fmt.Fprintf(&out, " voted=%d for %s", v.Ballot, recordText(v.Record))
		}
		out.WriteByte('\n')
	}
	return out.String()
}

func recordText(r slot.Record) string {
	s := fmt.Sprintf("%s of %s", r.Kind, labNames(peersOf(r.Members)))
	if len(r.Contributions) > 0 {
		s += " by " + labNames(offerers(r.Contributions))
	}
	return s
}

func (l *lab) events(d *datadriven.TestData) string {
	var out strings.Builder
	of := text(d, "of")
	for _, line := range l.log {
		f := strings.Fields(line)
		if of == "" || slices.Contains(strings.Split(of, ","), f[1]) {
			out.WriteString(line + "\n")
		}
	}
	l.log = nil
	return out.String()
}

package membership

import (
	"slices"
	"testing"
	"time"
)

// Four members come to the last slot, or three of them. Where all have the last state they end at
// once. A member that left by itself is not waited for. One that was lost is: until it has come
// back and has the state, or for Linger.
func TestHowLongFinishedPeersStay(t *testing.T) {
	const back = 4 * time.Second // after the last slot
	for name, c := range map[string]struct {
		gone        func(d *labPeer)
		returns     bool
		least, most time.Duration
	}{
		"all are there":      {func(*labPeer) {}, false, 0, 3 * time.Second},
		"one left":           {func(d *labPeer) { d.report(ReportLeave{}) }, false, 0, 3 * time.Second},
		"one was lost":       {(*labPeer).crash, false, labTiming.Linger, labTiming.Linger + time.Second},
		"one was lost, back": {(*labPeer).crash, true, back, back + 3*time.Second},
	} {
		for _, byzantine := range []bool{false, true} {
			rules, timing := labRules(), labTiming
			rules.StartPeers, rules.LastSlot, rules.Byzantine = 4, 12, byzantine
			timing.ForkAfter = 20 * time.Second
			l := connectedLab(t, rules, timing, "ABCD")
			stay, d := l.peers[:3], l.peers[3]
			all := func(in func(View) bool) func() bool {
				return func() bool {
					return !slices.ContainsFunc(stay, func(p *labPeer) bool { return !in(p.m.View()) })
				}
			}
			l.within(t, 2*time.Minute, name+": slot 3", all(func(v View) bool { return v.AppliedSlot >= 3 }))
			c.gone(d)
			l.within(t, 2*time.Minute, name+": the last slot", all(func(v View) bool { return v.AppliedSlot == 12 }))
			at := l.now
			if c.returns {
				l.rests(back)
				d.start()
			}
			l.awaits(t, name+": the end", all(func(v View) bool { return v.Done && v.Ending == EndsAsRun }))
			if took := l.now - at; took < c.least || took > c.most {
				t.Errorf("%s, byzantine %v: they ended after %v, want %v to %v", name, byzantine, took, c.least, c.most)
			}
			if v := d.view(); c.returns && (v.StateRoot != stay[0].m.View().StateRoot || v.Ending != EndsAsRun) {
				t.Errorf("%s: the one that came back ends with %v", name, v)
			}
		}
	}
}

// Four are cut in half. The half without the senior forks, and gets more work: its members count
// more tokens. The cut heals when the others have gone too far to give their slots up for a fork.
// They end the run, and the fork, which outweighs them to the last, comes to them. Without this it
// trains on beside the finished run, and ends with another model. The others wait for it, also
// where they know nothing of members that they have lost: a restart has made them forget it.
func TestAHeavierForkOfHalfEndsWithTheRun(t *testing.T) {
	t.Parallel()
	for _, restarted := range []bool{false, true} {
		l, ab, cd := heavierFork(t, 120)
		if restarted {
			for _, p := range ab {
				p.crash()
				p.start()
			}
		}
		l.filters = nil
		l.connect()
		ended := func(p *labPeer) bool { return p.m.View().Ending == EndsAsRun }
		l.run(2*time.Minute, func() bool { return ab[0].m.View().Done && ab[1].m.View().Done })
		want := ab[0].m.View().StateRoot
		for _, p := range ab {
			p.crash()
		}
		l.run(2*time.Second, func() bool { return ended(cd[0]) && ended(cd[1]) })
		for _, p := range cd {
			if v := p.m.View(); !ended(p) || v.StateRoot != want || v.ChainSwitches != 1 {
				t.Errorf("restarted %v: the others have gone, and %s ends with %v after %d switches, with "+
					"their model: %v\n%s", restarted, p.name, v.Ending, v.ChainSwitches, v.StateRoot == want, l.show())
			}
		}
	}
}

// heavierFork is a run of four that is cut in half, of which the half that forked has more work.
func heavierFork(t *testing.T, last uint64) (l *lab, ab, cd []*labPeer) {
	t.Helper()
	rules, timing := labRules(), labTiming
	rules.StartPeers, rules.LastSlot, timing.ForkAfter = 4, last, 4*time.Second
	l = connectedLab(t, rules, timing, "ABCD")
	l.until(t, 1, l.peers...)
	ab, cd = l.peers[:2], l.peers[2:]
	for _, p := range cd {
		p.weight = 100
	}
	l.filters = []*labFilter{{from: "A,B", to: "C,D", left: -1}, {from: "C,D", to: "A,B", left: -1}}
	l.until(t, 72, ab...)
	if !l.run(time.Minute, func() bool { return cd[0].m.chain.Tip().Work > 2*ab[0].m.chain.Tip().Work }) ||
		!provisional(cd[0]) || provisional(ab[0]) ||
		max(ab[0].m.chain.Tip().Slot, cd[0].m.chain.Tip().Slot) >= last {
		t.Fatalf("the half that forked has no more work\n%s", l.show())
	}
	return l, ab, cd
}

func (p *labPeer) view() (v View) {
	if p.m != nil {
		v = p.m.View()
	}
	return v
}

func provisional(p *labPeer) bool {
	_, is := p.m.chain.Provisional()
	return is
}

// Fewer than a quorum of the electors make a provisional branch, and a quorum that is back makes it
// the run again.
func TestProvisional(t *testing.T) {
	for signers, want := range map[string]bool{"D": true, "BCD": false, "CD": true} {
		rules, timing := labRules(), labTiming
		rules.StartPeers, timing.ForkAfter = 4, 4*time.Second
		l := connectedLab(t, rules, timing, "ABCD")
		l.awaits(t, "a slot", func() bool { return l.peers[3].m.chain.Tip().Slot > 0 })
		at := l.peers[3].m.chain.Tip().Slot
		for _, p := range l.peers {
			if !slices.Contains([]byte(signers), p.name[0]) {
				p.crash()
			}
		}
		l.awaits(t, signers+": something is decided", func() bool { return l.peers[3].m.chain.Tip().Slot > at+2 })
		if got := provisional(l.peers[3]); got != want {
			t.Errorf("%s go on: provisional %v, want %v", signers, got, want)
		}
		for _, p := range l.peers {
			if !p.up() {
				p.start()
			}
		}
		l.awaits(t, signers+" go on, and the others come back", func() bool {
			return !provisional(l.peers[3]) && len(l.peers[3].m.chain.Members()) == 4
		})
	}
}

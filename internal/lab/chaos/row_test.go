package chaos

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/failpoint/order"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// did is what comes of each row among five peers: its victims, how many processes each peer has
// had at its end, and what was done to links. disk-full mounts a disk, and is left to chaos itself.
var did = map[Kind]string{
	"kill":      "[2] 1 2 1 1 1",
	"leader":    "[2] 1 2 1 1 1",
	"restart":   "[2] 1 2 1 1 1",
	"wipe":      "[2] 1 2 1 1 1 wiped",
	"stop":      "[2] 1 1 1 1 1",
	"all":       "[1 2 3 4 5] 2 2 2 2 2",
	"bootstrap": "[] 1 1 1 1 1 boot",
	"late":      "[6] 1 1 1 1 1 1",
	"load":      "[2] 1 2 1 1 1",
	"turns":     "[2 3 4] 2 2 2 2 2",
	"end":       "[2] 2 3 2 2 2 gone",
	"cut":       "[2] 1 1 1 1 1 cut[2] heal[2] link[2 0]",
	"partition": "[2 3] 1 1 1 1 1 part[2 3] heal[]",
	"flap":      "[2] 1 1 1 1 1 cut[2] heal[2] link[2 0] cut[2] heal[2] link[2 0]",
	"slow":      "[2] 1 1 1 1 1 link[2 0] heal[2] link[2 0]",
	"pair":      "[2 3] 1 1 1 1 1 pair[2 3] heal[2 3] link[2 0]",
	"loss":      "[2] 1 1 1 1 1 link[2 20] heal[2] link[2 0]",
	"wipe-two":  "[2 3] 1 2 2 1 1 wiped",
	"flap-pair": "[2 3] 1 1 1 1 1 pair[2 3] heal[2 3] link[2 0] pair[2 3] heal[2 3] link[2 0]",
	"one-way":   "[2] 1 1 1 1 1 mute[2] heal[2] link[2 0]",
	"failpoint": "[2] 1 2 1 1 1",
}

// TestEachRow plays each row with processes that sleep.
func TestEachRow(t *testing.T) {
	for _, w := range rows {
		if w.is(Root) {
			continue
		}
		t.Run(string(w.kind), func(t *testing.T) {
			t.Parallel()
			r := sleepers(t)
			r.live()
			f := newFault(Fault{Kind: w.kind, Pick: 1, Side: 2, Place: "applied"})
			if strings.Contains(w.do, "again") {
				f.Seconds = 1.5 // twice down and up
			}
			f.armed, r.active = time.Now(), []*fault{f}
			some := r.victims(f)
			if err := os.MkdirAll(r.nodes[1].Data, 0o700); err != nil {
				t.Fatal(err)
			}
			before := r.boot.Process
			if err := r.begin(f, some...); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(20 * time.Second); len(r.active) > 0; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("it waits for %q", f.words)
				}
				r.live()
				r.help(t, f)
				if err := errors.Join(r.reap(), r.advance()); err != nil {
					t.Fatal(err)
				}
			}
			if got := r.came(f, before != r.boot.Process); got != did[w.kind] {
				t.Errorf("it did %q, want %q; %q", got, did[w.kind], r.odd)
			}
			if len(r.done) != 1 || strings.Contains(w.do, "back") && r.done[0].Return == 0 || r.nodes[1].hurt != nil {
				t.Errorf("it is not over: %+v", r.done)
			}
		})
	}
}

// help does what the peers themselves do in a fault.
func (r *runner) help(t *testing.T, f *fault) {
	if f.kind == End {
		for _, p := range r.nodes {
			p.status.Phase = p2pdiloco.PhaseEnded
		}
	}
	if f.doing("exited") {
		signal(f.hit, syscall.SIGTERM)
	}
	if f.doing("reached") {
		if _, _, err := order.Take(f.victims[0].orders(), string(f.Place)); err != nil {
			t.Fatal(err)
		}
		f.victims[0].Signal(syscall.SIGKILL)
	}
}

// came is what came of a fault.
func (r *runner) came(f *fault, boot bool) string {
	s, gone, logs := fmt.Sprint(f.Victims), 0, strings.Join(r.swarm.Logs(), " ")
	for _, p := range r.nodes {
		if s += fmt.Sprint(" ", strings.Count(logs, p.Data+".")); p.gone {
			gone++
		}
	}
	if _, err := os.Stat(r.nodes[1].Data); err != nil {
		s += " wiped"
	}
	if boot {
		s += " boot"
	}
	if gone == len(r.nodes) {
		s += " gone"
	}
	return s + r.links.(*wires).did
}

// TestWaitingEnds: what a fault waits for does not come, or it does, or not as it should.
func TestWaitingEnds(t *testing.T) {
	forked := func(r *runner, _ *fault) { r.nodes[3].status.Provisional = "it forked" }
	for _, c := range []struct {
		name  string
		kind  Kind
		trust string
		word  string
		ago   time.Duration
		set   func(*runner, *fault)
		done  bool
		odd   string
	}{
		{"they have time", "turns", "crash", "advance", 40 * time.Second, nil, false, ""},
		{"nobody goes on", "turns", "crash", "advance", 50 * time.Second, nil, true, "nobody went on in 50s"},
		{"they must wait", "turns", "byzantine", "advance", 40 * time.Second, nil, true, ""},
		{
			"no slot is left", "turns", "crash", "advance", time.Minute,
			func(_ *runner, f *fault) { f.BegunSlot = 59 }, true, "",
		},
		{"a slot", "turns", "crash", "advance", 0, func(r *runner, _ *fault) { r.ledger.slot++ }, true, ""},
		{"a side has forked", "partition", "crash", "fork", time.Second, forked, true, ""},
		{"none has yet", "partition", "crash", "fork", 49 * time.Second, nil, false, ""},
		{"none will", "partition", "crash", "fork", 50 * time.Second, nil, true, noBranch},
		{"they wait", "partition", "byzantine", "fork", time.Second, nil, true, ""},
		{"not missed yet", "load", "crash", "missed", time.Second, nil, false, ""},
		{"never missed", "load", "crash", "missed", 10 * time.Second, nil, true, "missed 10.0 s after"},
		{"a kill lasts", "kill", "crash", "lasts", time.Second, nil, false, ""},
		{"a slow swarm", "kill", "crash", "lasts", time.Minute, nil, true, ""},
	} {
		r := sleepers(t)
		r.live()
		r.cfg.Trust, r.ledger.slot, r.nodes = c.trust, 40, r.nodes[:4]
		f := r.suffer(c.kind, c.word, 3, 4)
		f.Slots, f.Seconds, f.slot, f.BegunSlot, f.Fork = 1, 3, 40, 40, c.kind == "partition"
		f.began, f.since = time.Now().Add(-c.ago), time.Now().Add(-c.ago)
		if c.set != nil {
			c.set(r, f)
		}
		done, err := r.do(f, c.word)
		odd := strings.Join(r.odd, "; ")
		if done != c.done || err != nil || !strings.Contains(odd, c.odd) || (odd == "") != (c.odd == "") {
			t.Errorf("%s: done %v, %q, %v", c.name, done, odd, err)
		}
	}
}

// TestWhoIsLate: a run does not wait for ever for a peer that does not come back.
func TestWhoIsLate(t *testing.T) {
	r := paper(4)
	f := r.suffer("kill", "back", 2)
	if done, err := r.do(f, "back"); done || err != nil {
		t.Error(done, err)
	}
	f.since = time.Now().Add(-returnWithin)
	if _, err := r.do(f, "back"); err == nil || !strings.Contains(err.Error(), "peer 2 is not back") {
		t.Error(err)
	}
}

func TestKinds(t *testing.T) {
	var got lab.Names[Kind]
	if err := got.Set("failpoint, disk-full,wipe-two,one-way"); err != nil ||
		got.String() != "failpoint,disk-full,wipe-two,one-way" || Needing(got, Links).String() != "one-way" ||
		Needing(got, Failpoints).String() != "failpoint" || Needing(got, Root).String() != "disk-full" {
		t.Errorf("%v, %v", got, err)
	}
	c := Config{Peers: minPeers, Slots: minSlots, Seed: 1, Kinds: got}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	c.Kinds = append(c.Kinds, "kil")
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), `"kil" is none of kill,`) {
		t.Errorf("an unknown kind: %v", err)
	}
	if all := Kinds(true); len(all) != 17 || slices.Contains(all, Failpoint) || len(Needing(Kinds(false), Links)) > 0 {
		t.Errorf("all are %v", all)
	}
	for _, w := range rows {
		if !strings.Contains(KindsHelp(), "  "+string(w.kind)+" ") {
			t.Errorf("the help has no %s", w.kind)
		}
	}
}

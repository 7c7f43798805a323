package cli

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

func TestDescribe(t *testing.T) {
	root := p2pdiloco.Root{0xab, 0xcd}
	for _, c := range []struct {
		name   string
		fields map[string]any
		want   string
	}{
		{
			"peer.started",
			map[string]any{"addrs": []string{"/ip4/127.0.0.1/tcp/1/p2p/x"}, "api": "127.0.0.1:2"},
			"--bootstrap /ip4/127.0.0.1/tcp/1/p2p/x",
		},
		{"peer.started", map[string]any{"api": "127.0.0.1:2"}, "p2pdiloco status --data-dir '/my runs/1'"},
		{"peer.started", map[string]any{"metrics": "[::]:9464"}, "/metrics at [::]:9464"},
		{
			"run.founded",
			map[string]any{"run_id": root},
			"founded the run, ID abcd0000; others can join with a ticket: p2pdiloco invite",
		},
		{
			"run.forked",
			map[string]any{"detail": "followed: 1 peers go on from height 10 without a quorum"},
			"forked: followed",
		},
		{
			"donor.dropped",
			map[string]any{"about": "p", "reason": "cannot be reached:\n  * [a] refused"},
			"without peer p: it cannot be reached: * [a] refused",
		},
		{"peer.left", map[string]any{"about": "q", "reason": "lost"}, "peer q is no member any more: it was not heard"},
		{"peer.left", map[string]any{"about": "q", "reason": "left"}, "peer q has left the run"},
		{
			"peer.left",
			map[string]any{"about": "q", "reason": "removed", "detail": "removed"},
			"peer q is no member any more: removed",
		},
		{"peer.left", map[string]any{"about": p2pdiloco.PeerID("p"), "reason": "left"}, "this peer has left the run"},
		{
			"peer.left",
			map[string]any{"about": p2pdiloco.PeerID("p"), "reason": "lost"},
			"the others went on without this peer",
		},
		{"peer.refused", map[string]any{"about": "q", "detail": "its draft is bad"}, "peer q: its draft is bad"},
		{"peer.objected", map[string]any{"about": "q", "detail": "no HAVE"}, "peer q: no HAVE"},
		{"run.paused", map[string]any{"detail": "no quorum"}, "paused: no quorum"},
		{"peer.removed", map[string]any{"about": p2pdiloco.PeerID("p"), "detail": "by"}, "this peer is removed"},
		{"state.synced", map[string]any{"slot": uint64(3), "bytes": int64(4.1e6)}, "the state of slot 3, 4.1 MB"},
		{
			"run.final",
			map[string]any{"ends_as": "run", "detail": "it is final"},
			"it is final\n  the model is saved; this peer may be stopped now (Ctrl-C). To get a file: " +
				"p2pdiloco export --data-dir '/my runs/1' --out MODEL.safetensors",
		},
		{"run.final", map[string]any{"ends_as": "branch", "detail": "it is final"}, "it is final"},
		{"slot.applied", map[string]any{"slot": uint64(3), "state_root": root}, ""},
		{"run.resumed", nil, "the run goes on: a quorum is heard again"},
		{"slot.planned", map[string]any{"slot": uint64(3)}, ""},
		{"something.new", nil, ""},
	} {
		got := describe(p2pdiloco.Event{Name: c.name, Peer: "p", Fields: c.fields}, "/my runs/1")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s %v: %q, want %q", c.name, c.fields, got, c.want)
		}
	}
}

// What a trainer's people read names no flag and nothing of Go's, but in a command to copy. Each
// line is of an event that the page has, or of the narrator.
func TestMessages(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/events.md")
	if err != nil {
		t.Fatal(err)
	}
	flag, code := regexp.MustCompile(`--[a-z]`), regexp.MustCompile(`[a-z][A-Z]|\b(Config|Node)\.`)
	command := regexp.MustCompile("p2pdiloco [a-z]+( --[a-z-]+ [^ ]+)*")
	for name, text := range messages {
		shown := command.ReplaceAllString(text, "")
		if flag.MatchString(shown) && name != "peer.started/address" || code.MatchString(shown) || text == "" {
			t.Errorf("%s: %q", name, text)
		}
		event, _, _ := strings.Cut(name, "/")
		if strings.Contains(event, ".") && !strings.Contains(string(page), event) {
			t.Errorf("%s: there is no such event", name)
		}
	}
}

// A newcomer takes in what happened to others before: that is no news.
func TestOldRecordsAreNoNews(t *testing.T) {
	p, said := staying(t)
	left := p2pdiloco.Event{Name: "peer.left", Peer: "p", Fields: map[string]any{"about": "q", "reason": "left"}}
	p.onEvent(left)
	p.onEvent(p2pdiloco.Event{Name: "run.joined", Peer: "p", Fields: map[string]any{"slot": uint64(3)}})
	left.Fields["about"] = "r"
	p.onEvent(left)
	if err := p.end(time.Minute); err != nil || said.Has("peer q") || !said.Has("peer r has left the run") {
		t.Errorf("it says %q, %v", said, err)
	}
}

func TestSlotLine(t *testing.T) {
	loss := 3.081
	before := p2pdiloco.Status{Slot: 3, Training: time.Minute, Sent: 1e6}
	before.Stats.Applied, before.Stats.Contributions = 3, 3
	now := p2pdiloco.Status{
		Slot: 4, LastSlot: 200, Parameters: 768_750, Contributors: 3, Members: make([]p2pdiloco.MemberStatus, 3),
		Spec:     map[string]string{"inner_steps": "20", "fragments": "1"},
		Training: time.Minute + 3400*time.Millisecond, Stall: 300 * time.Millisecond, Sent: 5.1e6,
	}
	now.Stats.Applied, now.Stats.Contributions, now.Stats.TrainLoss = 4, 4, &loss
	if got := slotLine(before, now); got != "slot 4/200 loss 3.081, 20 steps in 3.4 s, sync 0.30 s (8%), 3 members, "+
		"4.1 MB (data-parallel 82 MB), 12 min left" {
		t.Error(got)
	}
	if got := slotLine(p2pdiloco.Status{}, p2pdiloco.Status{Slot: 200, LastSlot: 200}); got !=
		"slot 200/200, 0 members" {
		t.Error(got)
	}
}

func TestWaits(t *testing.T) {
	me := p2pdiloco.MemberStatus{Self: true, State: "offered"}
	late := p2pdiloco.MemberStatus{Peer: "q", State: "late", Says: &p2pdiloco.Claims{Name: "attic"}}
	slow := p2pdiloco.MemberStatus{Peer: "r", State: "training", Steps: 12, Assigned: 20}
	sync := map[string]string{"mode": "sync", "start_peers": "3"}
	for want, s := range map[string]p2pdiloco.Status{
		"slot 5 waits for attic 2x (late), 2y (12 of 20 steps)": {
			Phase: p2pdiloco.PhaseRunning, Slot: 4, Spec: sync, Members: []p2pdiloco.MemberStatus{me, late, slow},
		},
		"slot 5: all have trained; what they learnt is combined and agreed on": {
			Phase: p2pdiloco.PhaseRunning, Slot: 4, Spec: sync, Members: []p2pdiloco.MemberStatus{me},
		},
		"": {Phase: p2pdiloco.PhaseRunning, Slot: 4, Spec: sync, Members: []p2pdiloco.MemberStatus{slow}},
		"the first slot waits for more members: 1 member, and start_peers is 3": {
			Phase: p2pdiloco.PhaseWaiting, Spec: sync, Members: []p2pdiloco.MemberStatus{me},
		},
		"still waiting: no quorum": {Phase: p2pdiloco.PhasePaused, Reason: "no quorum"},
	} {
		n := narrator{status: func() (p2pdiloco.Status, bool) { return s, true }}
		if got := n.waits(time.Now()); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	fetch := p2pdiloco.Status{
		Phase: p2pdiloco.PhaseJoining, Detail: "fetching the state: 30 of 400 MB",
		Sync: &p2pdiloco.SyncStatus{Bytes: 30e6},
	}
	n := narrator{status: func() (p2pdiloco.Status, bool) { return fetch, true }}
	began := time.Now()
	n.waits(began)
	if got := n.waits(began.Add(10 * time.Second)); got !=
		"still waiting: fetching the state: 30 of 400 MB, 3.0 MB/s" {
		t.Error(got)
	}
}

func TestHandyAddresses(t *testing.T) {
	for _, c := range []struct{ all, want string }{
		{"/ip4/127.0.0.1/tcp/1 /ip4/127.0.0.1/udp/2/quic-v1 /ip4/192.0.2.1/udp/2/quic-v1 /ip4/192.0.2.1/tcp/1 " +
			"/ip6/::1/tcp/1", "/ip4/192.0.2.1/tcp/1 /ip4/127.0.0.1/tcp/1"},
		{"/ip4/127.0.0.1/udp/2/quic-v1", "/ip4/127.0.0.1/udp/2/quic-v1"},
		{"/ip6/2001:db8::1/tcp/1", "/ip6/2001:db8::1/tcp/1"},
		{"", ""},
	} {
		if got := strings.Join(handy(strings.Fields(c.all)), " "); got != c.want {
			t.Errorf("of %s: %s, want %s", c.all, got, c.want)
		}
	}
}

func TestWarnMomentum(t *testing.T) {
	for _, c := range []struct {
		spec p2pdiloco.Spec
		want bool
	}{
		{p2pdiloco.Spec{Rounds: 20}, true},
		{p2pdiloco.Spec{Rounds: 20, Momentum: "0.9"}, true},
		{p2pdiloco.Spec{Rounds: 20, Momentum: "0.6"}, false},
		{p2pdiloco.Spec{Rounds: 20, Outer: "sgd"}, false},
		{p2pdiloco.Spec{Rounds: 200}, false},
		{p2pdiloco.Spec{}, false}, // the run decides
	} {
		var said string
		warnMomentum(c.spec, func(format string, args ...any) { said = fmt.Sprintf(format, args...) })
		if got := strings.Contains(said, "--outer-lr 0.7 --momentum 0.6"); got != c.want {
			t.Errorf("%+v: said %q", c.spec, said)
		}
	}
}

func TestWarnTrim(t *testing.T) {
	for _, c := range []struct {
		spec p2pdiloco.Spec
		want string
	}{
		{p2pdiloco.Spec{}, "note: --trim-permille 200 leaves out nobody while fewer than 5 peers contribute; "},
		{p2pdiloco.Spec{StartPeers: 4}, "fewer than 5 peers"},
		{p2pdiloco.Spec{StartPeers: 5}, ""},
		{p2pdiloco.Spec{StartPeers: 3, TrimPermille: 300}, "--trim-permille 300 leaves out nobody while fewer than 4 "},
		{p2pdiloco.Spec{StartPeers: 4, TrimPermille: 300}, ""},
		{p2pdiloco.Spec{Aggregator: "median"}, ""},
	} {
		said := ""
		warnTrim(c.spec, func(format string, args ...any) { said = fmt.Sprintf(format, args...) })
		if said == "" != (c.want == "") || !strings.Contains(said, c.want) {
			t.Errorf("%+v: said %q, want %q", c.spec, said, c.want)
		}
	}
}

func TestClosing(t *testing.T) {
	first, last := 3.0, 2.0
	got := closing(eventlog.Peer{
		Ended: true, Status: "ended", Slot: 7, BytesSent: 1500, LossFirst: &first, LossLast: &last,
	})
	for _, want := range []string{"the run has ended at slot 7", "sent 1.5 kB", "3.0000 at first, 2.0000 at last"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing: %s", want, got)
		}
	}
	got = closing(eventlog.Peer{Status: statusLeft})
	if !strings.Contains(got, "left the run") || strings.Contains(got, "loss") {
		t.Errorf("closing without a loss: %s", got)
	}
}

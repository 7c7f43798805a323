package node

import (
	"fmt"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/report"
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
		{
			"peer.started",
			map[string]any{"api": "127.0.0.1:2", "data_dir": "/d"},
			"p2pdiloco status --data-dir /d",
		},
		{"peer.started", map[string]any{"metrics": "[::]:9464"}, "/metrics at [::]:9464"},
		{
			"run.founded",
			map[string]any{"run_id": root},
			"founded the run, ID abcd0000; others can join with a ticket: p2pdiloco invite",
		},
		{"run.forked", map[string]any{"detail": "followed: 1 peers go on from height 0 without a quorum"}, ""},
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
		{"slot.applied", map[string]any{"slot": uint64(3), "state_root": root}, "slot 3 applied, state root abcd0000"},
		{"trainer.stats", map[string]any{"round": uint64(3), "loss": 2.5}, "after round 3: held-out loss 2.5000"},
		{"trainer.stats", map[string]any{"round": uint64(0), "loss": 2.5}, "before round 1: held-out loss 2.5000"},
		{"trainer.stats", map[string]any{"round": uint64(3)}, "round 3"},
		{"peer.left", map[string]any{"about": "q", "detail": "lost"}, "peer q is no member any more: it was not heard"},
		{"peer.left", map[string]any{"about": "q", "detail": "left"}, "peer q has left the run"},
		{"peer.left", map[string]any{"about": "q", "detail": "removed"}, "peer q is no member any more: removed"},
		{"peer.left", map[string]any{"about": p2pdiloco.PeerID("p"), "detail": "left"}, "this peer has left the run"},
		{
			"peer.left",
			map[string]any{"about": p2pdiloco.PeerID("p"), "detail": "lost"},
			"the others went on without this peer",
		},
		{"peer.refused", map[string]any{"about": "q", "detail": "its draft is bad"}, "peer q: its draft is bad"},
		{"peer.objected", map[string]any{"about": "q", "detail": "no HAVE"}, "peer q: no HAVE"},
		{"run.paused", map[string]any{"detail": "no quorum"}, "paused: no quorum"},
		{"run.resumed", nil, "the run goes on: a quorum is heard again"},
		{"slot.planned", map[string]any{"slot": uint64(3)}, ""},
		{"something.new", nil, ""},
	} {
		got := describe(p2pdiloco.Event{Name: c.name, Peer: "p", Fields: c.fields})
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s %v: %q, want %q", c.name, c.fields, got, c.want)
		}
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

func TestClosing(t *testing.T) {
	first, last := 3.0, 2.0
	got := closing(report.Peer{
		Ended: true, Status: "ended", Slot: 7, BytesSent: 1500, LossFirst: &first, LossLast: &last,
	})
	for _, want := range []string{"the run has ended at slot 7", "sent 1.5 kB", "3.0000 at first, 2.0000 at last"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing: %s", want, got)
		}
	}
	got = closing(report.Peer{Status: statusLeft})
	if !strings.Contains(got, "left the run") || strings.Contains(got, "loss") {
		t.Errorf("closing without a loss: %s", got)
	}
}

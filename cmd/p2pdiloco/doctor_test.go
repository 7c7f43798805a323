package main

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/api"
	"github.com/p2pdiloco/p2pdiloco/internal/doctor"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
)

// examined is what doctor prints with --json.
type examined struct {
	Worst    doctor.Level
	Findings []doctor.Finding
	doctor.View
}

// examine runs doctor to its end.
func examine(t *testing.T, home string, want int, args ...string) (e examined) {
	t.Helper()
	p := clitest.Start(t, home, append([]string{"doctor", "--json"}, args...)...)
	p.Exits(t, want)
	p.Read(t, &e)
	return e
}

// level is that of a check.
func (e examined) level(check string) doctor.Level {
	for _, f := range e.Findings {
		if f.Check == check {
			return f.Level
		}
	}
	return ""
}

// TestDoctor asks a peer that runs here with one other, and looks at both from outside with a
// ticket: either way the links are measured and held against the model. A bootstrap address where
// nobody is fails.
func TestDoctor(t *testing.T) {
	t.Parallel()
	home, name := t.TempDir(), lab.RunName("test")
	join := func(home string, more ...string) (addr api.Address, s p2pdiloco.Status) {
		// a round is never over, and takes little of the processor
		_, events := startPeer(t, home, append(more, "--run", name, "--inner-steps", "1000000", "--step-time",
			"20ms")...)
		addr, err := api.ParseAddress(clitest.Await(t, events, "peer.started").API)
		must(t, err)
		if _, err := (api.Client{Addr: addr}).Get(t.Context(), &s); err != nil {
			t.Fatal(err)
		}
		return addr, s
	}
	addr, s := join(home)
	join(t.TempDir(), "--bootstrap", s.Addrs[0])
	clitest.Until(t, "two members", func() bool {
		_, err := (api.Client{Addr: addr}).Get(t.Context(), &s)
		return err == nil && len(s.Members) == 2
	})

	e := examine(t, home, cli.ExitOK)
	if e.Node != s.Peer.String() || len(e.Peers) != 1 || e.Peers[0].Up == 0 || e.Peers[0].RTT == 0 ||
		e.Slot.Members != 2 || e.Slot.Bytes != 4*s.Parameters || e.Slot.Steps != 1000000 {
		t.Errorf("the peer that runs here: %+v", e)
	}
	for _, check := range []string{"bootstrap", "address", "nat", "reach", "clock", "slot"} {
		if got := e.level(check); got != doctor.OK {
			t.Errorf("%s is %q", check, got)
		}
	}

	k := ticket.Ticket{Run: name, RunID: s.RunID, Pin: s.Tip, Addrs: s.Addrs[:1]}
	text, err := k.Encode()
	must(t, err)
	e = examine(t, t.TempDir(), cli.ExitOK, text)
	if e.Node != "" || len(e.Peers) == 0 || !e.Peers[0].Member || e.Peers[0].Down == 0 ||
		e.Slot.Bytes != 4*s.Parameters || e.level("ticket") != doctor.OK || e.Reach == nil {
		t.Errorf("from outside: %+v", e)
	}

	k.Expires, k.Token = time.Now().Add(time.Hour).Truncate(time.Second), &ticket.Token{Uses: 1}
	if text, err = k.Encode(); err != nil {
		t.Fatal(err)
	}
	if e = examine(t, t.TempDir(), cli.ExitOK, text); e.level("members") != doctor.Warn ||
		e.level("bootstrap") != doctor.OK || len(e.Peers) > 0 {
		t.Errorf("of a private run, from outside: %+v", e)
	}

	e = examine(t, t.TempDir(), cli.ExitFailed, "--bootstrap", "/ip4/127.0.0.1/tcp/1/p2p/"+s.Peer.String(), "--timeout",
		"1s")
	if e.Worst != doctor.Fail || e.level("bootstrap") != doctor.Fail {
		t.Errorf("where nobody is: %+v", e)
	}
}

//go:build unix

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
)

// startPeer starts a peer on this machine, which writes events to the file that is named.
func startPeer(t *testing.T, home, data string, args ...string) (p *clitest.Program, events string) {
	t.Helper()
	p, events = preparePeer(t, home, data, args...)
	p.Begin(t)
	return p, events
}

// preparePeer is startPeer without the start.
func preparePeer(t *testing.T, home, data string, args ...string) (p *clitest.Program, events string) {
	t.Helper()
	events = filepath.Join(home, "events")
	args = append([]string{"join", "--preset", "lan", "--data", data, "--events", events, "--json"},
		slices.Concat(args, tiny, onLoopback)...)
	return clitest.New(t, home, args...), events
}

// invited is a ticket of the peer below home.
func invited(t *testing.T, home string, args ...string) string {
	t.Helper()
	invite := clitest.New(t, home, append([]string{"invite"}, args...)...)
	if err := invite.Run(); err != nil || !strings.Contains(invite.Err.String(), "it is of no use on other machines") {
		t.Fatal(err, &invite.Err)
	}
	text, more, ended := strings.Cut(invite.Out.String(), "\n")
	if !ended || more != "" || !strings.HasPrefix(text, ticket.Prefix) {
		t.Fatalf("the ticket is %q", &invite.Out)
	}
	return text
}

func leave(t *testing.T, peers ...*clitest.Program) {
	t.Helper()
	for _, p := range peers {
		if err := p.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if code := p.Ends(t); code != cli.ExitOK {
			t.Errorf("exit %d after leaving", code)
		}
	}
}

// TestInviteJoin has a peer join with nothing but a ticket, after the bootstrap node has gone.
func TestInviteJoin(t *testing.T) {
	t.Parallel()
	home, other := t.TempDir(), t.TempDir()
	boot := clitest.Start(t, home, append([]string{"bootstrap", "--addr-file", filepath.Join(home, "addrs")},
		onLoopback...)...)
	var addr []byte
	clitest.Until(t, "the address file", func() (ok bool) {
		addr,
			_ = os.ReadFile(filepath.Join(home, "addrs"))
		return len(addr) > 0
	})
	name, data := swarm.RunName("test"), smallData(t)
	founder, events := startPeer(t, home, data, "--run", name, "--bootstrap", strings.TrimSpace(string(addr)),
		"--rounds", "100000", "--inner-steps", "2", "--outer", "sgd")
	clitest.AwaitEvent(t, events, "the first slot", clitest.Named("slot.applied"))

	invite := clitest.New(t, home, "invite", "--ttl", "2d")
	if err := invite.Run(); err != nil || !strings.Contains(invite.Err.String(), "it is of no use on other machines") {
		t.Fatal(err, &invite.Err)
	}
	text := invite.Out.String()
	if strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, ticket.Prefix) {
		t.Fatalf("the ticket is %q", text)
	}
	if err := boot.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	foreign := clitest.Start(t, other, "join", "--run", "books", text)
	if foreign.Ends(t) != cli.ExitUsage || !strings.Contains(foreign.Err.String(),
		"--run books: the ticket is for run "+name) {
		t.Errorf("another run's name beside the ticket: %s", &foreign.Err)
	}
	guest, events := startPeer(t, other, data, text)
	clitest.AwaitEvent(t, events, "the guest's joining", clitest.Named("run.joined"))
	clitest.AwaitEvent(t, events, "the guest's first slot", clitest.Named("slot.applied"))
	leave(t, guest, founder)
}

// TestPrivateJoin: a private run admits peers with a ticket, as many as the ticket is for.
func TestPrivateJoin(t *testing.T) {
	t.Parallel()
	home, data, name := t.TempDir(), smallData(t), swarm.RunName("test")
	founder, events := startPeer(t, home, data, "--run", name, "--access", "private", "--rounds", "100000",
		"--inner-steps", "2", "--outer", "sgd")
	clitest.AwaitEvent(t, events, "the secret", clitest.Named("admission.made"))
	clitest.AwaitEvent(t, events, "the first slot", clitest.Named("slot.applied"))
	text := invited(t, home, "--uses", "1")

	first, second, third := t.TempDir(), t.TempDir(), t.TempDir()
	// neither command line shows the ticket, which others could use
	guest, events := preparePeer(t, first, data, "-")
	guest.Stdin = strings.NewReader(text[:40] + "\n" + text[40:] + "\n")
	guest.Begin(t)
	clitest.AwaitEvent(t, events, "the guest's first slot", clitest.Named("slot.applied"))
	file := filepath.Join(second, "ticket")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	refused, _ := startPeer(t, second, data, "--ticket", "@"+file)
	if code := refused.Ends(t); code != cli.ExitFailed ||
		!strings.Contains(refused.Err.String(),
			"the ticket was for fewer peers than have used it: ask for a new one") {
		t.Errorf("exit %d of a second peer with a ticket for one: %s", code, &refused.Err)
	}
	secret, err := filepath.Glob(filepath.Join(home, "p2pdiloco", "*", "peer-1", "admission.secret"))
	if err != nil || len(secret) != 1 {
		t.Fatalf("the secret is in %q, %v", secret, err)
	}
	friend, events := startPeer(t, third, data, "--run", name, "--admission-secret", secret[0])
	clitest.AwaitEvent(t, events, "the first slot of one with the secret", clitest.Named("slot.applied"))
	leave(t, friend, guest, founder)
}

// The command invite says where a ticket cannot work.
func TestAboutATicketsAddresses(t *testing.T) {
	const local, far = "all its addresses are of the local network", "all its addresses are of this machine"
	for _, c := range []struct {
		addrs []string
		want  string
	}{
		{[]string{"/ip4/127.0.0.1/tcp/1/p2p/x", "/ip6/::1/tcp/1/p2p/x"}, far},
		{[]string{
			"/ip4/127.0.0.1/tcp/1/p2p/x", "/ip4/192.168.1.7/tcp/1/p2p/x", "/ip6/fe80::1/tcp/1/p2p/x",
			"/ip6/fd00::1/tcp/1/p2p/x",
		}, local},
		{[]string{"/ip4/10.0.0.1/tcp/1/p2p/x", "/ip4/8.8.8.8/udp/1/quic-v1/p2p/x"}, ""},
		{[]string{"/dns4/example.org/tcp/1/p2p/x"}, ""},
	} {
		got := about(ticket.Ticket{Run: "r", Addrs: c.addrs})
		if !strings.Contains(got, c.want) || c.want == "" && strings.Contains(got, "all its addresses") {
			t.Errorf("%v: %s", c.addrs, got)
		}
	}
}

// TestALaptopThatSleeps stops a peer's process until the others have left it out and train on, and
// wakes it: it gets what it missed, is a member again, contributes, and says what happened.
func TestALaptopThatSleeps(t *testing.T) {
	t.Parallel()
	home, away, data := t.TempDir(), t.TempDir(), smallData(t)
	founder, events := startPeer(t, home, data, "--run", swarm.RunName("test"), "--rounds", "100000", "--inner-steps",
		"2", "--outer", "sgd")
	clitest.AwaitEvent(t, events, "the first slot", clitest.Named("slot.applied"))
	laptop, own := startPeer(t, away, data, invited(t, home))
	id := clitest.AwaitEvent(t, own, "the laptop's start", clitest.Named("peer.started")).PeerID
	contributes := func(after uint64) func(eventlog.Line) bool {
		return func(e eventlog.Line) bool {
			return e.Event == "slot.committed" && e.Slot > after && strings.Contains(string(e.Contributors), id)
		}
	}
	clitest.AwaitEvent(t, events, "the laptop's first contribution", contributes(0))

	stopped := time.Now()
	if err := laptop.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	lost := clitest.AwaitEvent(t, events, "its loss",
		func(e eventlog.Line) bool { return e.Event == "peer.left" && e.About == id && e.Time.After(stopped) })
	without := clitest.AwaitEvent(t, events, "a slot without it", func(e eventlog.Line) bool {
		return e.Event == "slot.committed" && e.Time.After(lost.Time) && !slices.Contains(e.Members, id)
	})
	awake := without.Time.Add(7 * time.Second) // a pause that long is noticed
	clitest.Until(t, "some sleep", func() bool { return time.Now().After(awake) })
	if err := laptop.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	clitest.AwaitEvent(t, events, "a contribution after its sleep", contributes(without.Slot))
	clitest.AwaitEvent(t, own, "what it missed", func(e eventlog.Line) bool {
		return e.Event == "slot.applied" &&
			e.Slot > without.Slot
	})
	leave(t, laptop, founder)
	if said := laptop.Err.String(); !strings.Contains(said, "this peer did not run for") ||
		!strings.Contains(said, "the others went on without this peer") {
		t.Errorf("it said\n%s", said)
	}
}

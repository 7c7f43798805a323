//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/p2pdiloco/internal/swarm"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
)

// startPeer starts a peer on this machine, which writes events to the file that is named.
func startPeer(t *testing.T, home, data string, args ...string) (p *program, events string) {
	t.Helper()
	events = filepath.Join(home, "events")
	args = append([]string{"join", "--preset", "lan", "--data", data, "--events", events, "--json"}, append(args, onLoopback...)...)
	return startProgram(t, home, args...), events
}

// invited is a ticket of the peer below home.
func invited(t *testing.T, home string, args ...string) string {
	t.Helper()
	invite := newProgram(t, home, append([]string{"invite"}, args...)...)
	if err := invite.Run(); err != nil || !strings.Contains(invite.stderr.String(), "it is of no use on others") {
		t.Fatal(err, &invite.stderr)
	}
	text, more, ended := strings.Cut(invite.stdout.String(), "\n")
	if !ended || more != "" || !strings.HasPrefix(text, ticket.Prefix) {
		t.Fatalf("the ticket is %q", &invite.stdout)
	}
	return text
}

func leave(t *testing.T, peers ...*program) {
	t.Helper()
	for _, p := range peers {
		if err := p.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if code := p.ends(t); code != exitOK {
			t.Errorf("exit %d after leaving", code)
		}
	}
}

// TestInviteJoin has a peer join with nothing but a ticket, after the bootstrap node has gone.
func TestInviteJoin(t *testing.T) {
	t.Parallel()
	home, other := t.TempDir(), t.TempDir()
	boot := startProgram(t, home, append([]string{"bootstrap", "--addr-file", filepath.Join(home, "addrs")}, onLoopback...)...)
	var addr []byte
	until(t, "the address file", func() (ok bool) { addr, _ = os.ReadFile(filepath.Join(home, "addrs")); return len(addr) > 0 })
	name, data := swarm.RunName("test"), smallData(t)
	founder, events := startPeer(t, home, data, "--run", name, "--bootstrap", strings.TrimSpace(string(addr)), "--rounds", "100000", "--inner-steps", "2", "--outer", "sgd")
	awaitEvent(t, events, "the first slot", named("slot.applied"))

	invite := newProgram(t, home, "invite", "--ttl", "2d")
	if err := invite.Run(); err != nil || !strings.Contains(invite.stderr.String(), "it is of no use on others") {
		t.Fatal(err, &invite.stderr)
	}
	text := invite.stdout.String()
	if strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, ticket.Prefix) {
		t.Fatalf("the ticket is %q", text)
	}
	if err := boot.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	foreign := startProgram(t, other, "join", "--run", "books", text)
	if foreign.ends(t) != exitUsage || !strings.Contains(foreign.stderr.String(), "--run books: the ticket is for run "+name) {
		t.Errorf("another run's name beside the ticket: %s", &foreign.stderr)
	}
	guest, events := startPeer(t, other, data, text)
	awaitEvent(t, events, "the guest's joining", named("run.joined"))
	awaitEvent(t, events, "the guest's first slot", named("slot.applied"))
	leave(t, guest, founder)
}

// TestPrivateJoin admits to a private run who has a ticket, and as many as it is for.
func TestPrivateJoin(t *testing.T) {
	t.Parallel()
	home, data, name := t.TempDir(), smallData(t), swarm.RunName("test")
	founder, events := startPeer(t, home, data, "--run", name, "--access", "private", "--rounds", "100000", "--inner-steps", "2", "--outer", "sgd")
	awaitEvent(t, events, "the secret", named("admission.made"))
	awaitEvent(t, events, "the first slot", named("slot.applied"))
	text := invited(t, home, "--uses", "1")

	first, second, third := t.TempDir(), t.TempDir(), t.TempDir()
	guest, events := startPeer(t, first, data, text)
	awaitEvent(t, events, "the guest's first slot", named("slot.applied"))
	refused, _ := startPeer(t, second, data, text)
	if code := refused.ends(t); code != exitFailed || !strings.Contains(refused.stderr.String(), "the ticket was for fewer peers than have used it: ask for a new one") {
		t.Errorf("exit %d of a second peer with a ticket for one: %s", code, &refused.stderr)
	}
	secret, err := filepath.Glob(filepath.Join(home, "p2pdiloco", "*", "peer-1", "admission.secret"))
	if err != nil || len(secret) != 1 {
		t.Fatalf("the secret is in %q, %v", secret, err)
	}
	friend, events := startPeer(t, third, data, "--run", name, "--admission-secret", secret[0])
	awaitEvent(t, events, "the first slot of one with the secret", named("slot.applied"))
	leave(t, friend, guest, founder)
}

// Who hands out a ticket is told from where it cannot work.
func TestAboutATicketsAddresses(t *testing.T) {
	const local, far = "all its addresses are of the local network", "all its addresses are of this machine"
	for _, c := range []struct {
		addrs []string
		want  string
	}{
		{[]string{"/ip4/127.0.0.1/tcp/1/p2p/x", "/ip6/::1/tcp/1/p2p/x"}, far},
		{[]string{"/ip4/127.0.0.1/tcp/1/p2p/x", "/ip4/192.168.1.7/tcp/1/p2p/x", "/ip6/fe80::1/tcp/1/p2p/x", "/ip6/fd00::1/tcp/1/p2p/x"}, local},
		{[]string{"/ip4/10.0.0.1/tcp/1/p2p/x", "/ip4/8.8.8.8/udp/1/quic-v1/p2p/x"}, ""},
		{[]string{"/dns4/example.org/tcp/1/p2p/x"}, ""},
	} {
		got := about(ticket.Ticket{Run: "r", Addrs: c.addrs})
		if !strings.Contains(got, c.want) || c.want == "" && strings.Contains(got, "all its addresses") {
			t.Errorf("%v: %s", c.addrs, got)
		}
	}
}

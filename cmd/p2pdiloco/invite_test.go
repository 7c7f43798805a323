//go:build unix

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
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

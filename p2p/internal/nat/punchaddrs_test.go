package nat

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

func TestPunchAddrs(t *testing.T) {
	const quic, tcp, guess = "/ip4/1.2.3.4/udp/7/quic-v1", "/ip4/1.2.3.4/tcp/9", "/ip4/1.2.3.4/tcp/4009"
	f := &punchAddrs{guesses: func(seen []multiaddr.Multiaddr) (addrs []multiaddr.Multiaddr) {
		if slices.ContainsFunc(seen, peers.OverQUIC) {
			return multiaddrs(guess)
		}
		return nil
	}}
	for _, c := range []struct{ mine, told, theirs, used string }{
		{quic, guess + " " + quic, quic + " " + tcp, quic},
		{quic, guess + " " + quic, tcp, tcp},
		{tcp, tcp, quic + " " + tcp, quic + " " + tcp},
	} {
		if got := fmt.Sprint(f.FilterLocal("", multiaddrs(c.mine))); got != "["+c.told+"]" {
			t.Errorf("of %s is told %s, want %s", c.mine, got, c.told)
		}
		if got := fmt.Sprint(f.FilterRemote("", multiaddrs(c.theirs))); got != "["+c.used+"]" {
			t.Errorf("with %s, of %s is used %s, want %s", c.mine, c.theirs, got, c.used)
		}
	}
}

func multiaddrs(text string) (addrs []multiaddr.Multiaddr) {
	for s := range strings.FieldsSeq(text) {
		addrs = append(addrs, multiaddr.StringCast(s))
	}
	return addrs
}

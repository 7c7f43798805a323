package limits

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"
)

// TestAllowances has peers take their share of a relay at times that are given.
func TestAllowances(t *testing.T) {
	at := func(ip string) multiaddr.Multiaddr { return multiaddr.StringCast(ip + "/tcp/4001") }
	home, away := at("/ip4/203.0.113.1"), at("/ip4/198.51.100.1")
	start := time.Now()
	type take struct {
		after time.Duration // since the start
		id    peer.ID
		from  multiaddr.Multiaddr
		bytes int
		err   error
		wait  time.Duration // to a tenth of a second; for the peer's turn and then that of all
	}
	for _, c := range []struct {
		name             string
		rate, total, day int64
		takes            []take
	}{
		{"a rate", 1000, 0, 0, []take{
			{0, "a", home, 1000, nil, 0},
			{0, "a", home, 1000, nil, 900 * time.Millisecond},
			// the address has eight times a peer's
			{0, "b", home, 1000, nil, 200 * time.Millisecond},
			{0, "a", away, 1000, nil, 1900 * time.Millisecond},
			{time.Minute, "a", home, 1000, nil, 0},
		}},
		{"too much at once", 1000, 0, 0, []take{
			{0, "a", home, 11_000, nil, 0},
			{0, "a", home, 1, ErrBusy, 0},
			{0, "b", home, 1, nil, 1300 * time.Millisecond},
			{2 * time.Second, "a", home, 1, nil, 9 * time.Second},
		}},
		{"too much of all at once", 0, 1000, 0, []take{
			{0, "a", home, 11_000, nil, 0},
			{0, "b", away, 1, ErrBusy, 0},
			{2 * time.Second, "b", away, 1, nil, 9 * time.Second},
		}},
		{"a rate of all", 0, 1000, 0, []take{
			{0, "a", home, 1000, nil, 0},
			{0, "b", away, 1000, nil, 900 * time.Millisecond},
		}},
		{"a day", 0, 0, 1000, []take{
			{0, "a", home, 900, nil, 0},
			{0, "a", home, 200, ErrSpent, 0},
			{0, "a", away, 200, ErrSpent, 0}, // the peer's own account
			{0, "b", home, 1000, nil, 0},
			{time.Hour, "a", home, 200, ErrSpent, 0},
			{6 * time.Hour, "a", home, 200, nil, 0}, // a quarter has come back
			{6 * time.Hour, "a", home, 200, ErrSpent, 0},
		}},
	} {
		a := NewAllowances(c.rate, c.total, c.day)
		for i, k := range c.takes {
			wait, err := a.Take(k.id, k.from, k.bytes, start.Add(k.after))
			if err == nil {
				var more time.Duration
				more, err = a.Turn(k.bytes, start.Add(k.after))
				wait += more
			}
			if !errors.Is(err, k.err) || (wait-k.wait).Abs() > 100*time.Millisecond {
				t.Errorf("%s, %d: %v, wait %s; want %v, %s", c.name, i, err, wait, k.err, k.wait)
			}
		}
	}
}

// TestAllowancesOfOneAddress: names are made up in no time, addresses are not.
func TestAllowancesOfOneAddress(t *testing.T) {
	a, now := NewAllowances(0, 0, 1000), time.Now()
	const site = "/ip6/2001:db8:0:1%02x::%x/tcp/4001" // a /56 is one subscriber's
	passed := 0
	for i := range 100 {
		from := multiaddr.StringCast(fmt.Sprintf(site, i, i+1))
		if _, err := a.Take(peer.ID(fmt.Sprint("peer ", i)), from, 1000, now); err == nil {
			passed++
		}
	}
	if passed != addressAccounts {
		t.Errorf("%d peers of one address had a day's allowance, want %d", passed, addressAccounts)
	}
	if !a.Spent("another", multiaddr.StringCast("/ip6/2001:db8:0:1ff::9/tcp/1"), now) {
		t.Error("a newcomer at that address has something left")
	}
	if a.Spent("another", multiaddr.StringCast("/ip6/2001:db8:0:200::9/tcp/1"), now) {
		t.Error("another address has nothing left")
	}
}

// TestAllowancesForgetOnlyWhatIsPaid: whoever floods a relay with names has nobody's use forgotten.
func TestAllowancesForgetOnlyWhatIsPaid(t *testing.T) {
	a, now := NewAllowances(0, 0, 1000), time.Now()
	home := multiaddr.StringCast("/ip4/203.0.113.1/tcp/4001")
	if _, err := a.Take("greedy", home, 1000, now); err != nil {
		t.Fatal(err)
	}
	for i := range maxAccounts {
		ip := multiaddr.StringCast(fmt.Sprintf("/ip4/10.%d.%d.%d/tcp/1", i>>16, i>>8&255, i&255))
		a.Spent(peer.ID(fmt.Sprint("name ", i)), ip, now.Add(time.Duration(i)*20*time.Microsecond))
	}
	if n := len(a.mu.accounts); n > maxAccounts {
		t.Errorf("%d accounts are kept, at most %d are allowed", n, maxAccounts)
	}
	if !a.Spent("greedy", home, now.Add(time.Minute)) {
		t.Error("what was used is forgotten")
	}
	if a.Spent("greedy", home, now.Add(25*time.Hour)) {
		t.Error("a day later it is not back")
	}
}

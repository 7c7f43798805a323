package ticket

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

const (
	idA = "12D3KooWEqnTdgqHnkkwarSrJjeMP2ZJiADWLYADaNvUb6SQNyPF"
	idB = "QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N"
)

func sample() Ticket {
	return Ticket{
		Run: "Bücher-7b", RunID: slot.Root{1, 2}, Height: 77, Pin: slot.Root{3},
		Expires: time.Unix(1_800_000_000, 0).UTC(),
		Addrs: []string{
			"/ip4/203.0.113.7/tcp/4001/p2p/" + idA, "/ip6/2001:db8::1/udp/4001/quic-v1/p2p/" + idA,
			"/dns4/boot.example.org/tcp/4001/p2p/" + idB,
			"/ip4/198.51.100.1/tcp/4001/p2p/" + idB + "/p2p-circuit/p2p/" + idA,
		},
	}
}

func private() Ticket {
	t := sample()
	t.Token = &Token{ID: [IDSize]byte{4}, Uses: 3, Tag: [TagSize]byte{5}, Rendezvous: [RendezvousSize]byte{6}}
	return t
}

func text(t testing.TB, k Ticket) string {
	t.Helper()
	s, err := k.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRoundTrip(t *testing.T) {
	forever := sample()
	forever.Expires = time.Time{}
	for _, want := range []Ticket{sample(), private(), forever} {
		s := text(t, want)
		got, err := Parse(s)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v", got, err)
		}
		if strings.Trim(s, alphabet+"1") != "" {
			t.Errorf("%q is not one word of small letters and digits", s)
		}
	}
}

// The text of a ticket must not change within a protocol version: those that were given away are to
// be understood by later releases.
func TestGoldenText(t *testing.T) {
	small := Ticket{
		Run: "demo", RunID: slot.Root{1}, Height: 9, Pin: slot.Root{2},
		Addrs: []string{"/ip4/192.0.2.1/tcp/4001/p2p/" + idA},
	}
	testutil.Golden(t, "testdata/golden.txt", text(t, small)+"\n")
}

// White space, capitals, quotes and what nobody sees come of mail programs and the telephone.
func TestTextSurvivesCopying(t *testing.T) {
	s := text(t, private())
	var wrapped strings.Builder
	for i, r := range s {
		if i%60 == 59 {
			wrapped.WriteString(" \r\n\t\u00a0")
		}
		wrapped.WriteRune(r)
	}
	for _, copied := range []string{
		wrapped.String(), "\n  " + s + "\n", strings.ToUpper(s), "'" + s + "'",
		"“" + s + "”.", "<" + s + ">", s[:50] + "\u200b" + s[50:],
	} {
		if got, err := Parse(copied); err != nil || !reflect.DeepEqual(got, private()) || !Is(copied) {
			t.Errorf("%v of %q", err, copied)
		}
	}
}

func TestEveryMissingTailIsSeen(t *testing.T) {
	s := text(t, private())
	for n := len(Prefix); n < len(s); n++ {
		if _, err := Parse(s[:n]); !errors.Is(err, ErrCutOff) {
			t.Fatalf("of %d characters the first %d: %v", len(s), n, err)
		}
	}
}

func TestEveryChangedCharacterIsSeen(t *testing.T) {
	s := text(t, private())
	for i := range s {
		for _, other := range []string{"a", "b", "7", "1", "é"} {
			if s[i:i+1] == other {
				continue
			}
			if got, err := Parse(s[:i] + other + s[i+1:]); err == nil {
				t.Fatalf("character %d changed to %s: %+v", i, other, got)
			}
		}
	}
	for _, longer := range []string{s + "a", s + "aaaaaaaa", s + s[len(Prefix):], s + s} {
		if _, err := Parse(longer); !errors.Is(err, ErrDamaged) {
			t.Errorf("more than there was: %v", err)
		}
	}
}

func TestWhatIsNoTicket(t *testing.T) {
	for _, s := range []string{
		"", "books", "p2pdiloco", "/ip4/1.2.3.4/tcp/1/p2p/" + idA,
		strings.Repeat(" ", MaxText+1), "p2pdiloco2" + text(t, sample())[len(Prefix):],
	} {
		if _, err := Parse(s); !errors.Is(err, ErrNoTicket) {
			t.Errorf("%.50q: %v", s, err)
		}
	}
	old, err := os.ReadFile("testdata/version2.txt")
	if err != nil {
		t.Fatal(err)
	}
	var other *wire.VersionError
	if _, err := Parse(string(old)); !errors.As(err, &other) || other.Theirs != "2" {
		t.Errorf("of version 2: %v", err)
	}
}

func TestUsable(t *testing.T) {
	for addr, want := range map[string]bool{
		"/dns4/a.example/tcp/1/p2p/" + idA: true, "/dns4/a b/tcp/1/p2p/" + idA: false, "/dns4/a.example/tcp/1": false,
		"/dns4/" + strings.Repeat("a", maxAddr) + "/tcp/1/p2p/" + idA: false,
	} {
		if Usable(addr) != want {
			t.Errorf("%.60s: %v", addr, !want)
		}
	}
}

func TestExpired(t *testing.T) {
	k := sample()
	if end := k.Expires.Add(Grace); k.Expired(end) || !k.Expired(end.Add(time.Second)) {
		t.Error("it expires when the grace is over")
	}
	k.Expires = time.Time{}
	if k.Expired(time.Unix(1<<40, 0)) {
		t.Error("one that never expires has")
	}
}

func TestInvalidTickets(t *testing.T) {
	for name, spoil := range map[string]func(*Ticket){
		"no name":           func(k *Ticket) { k.Run = "" },
		"a name of two":     func(k *Ticket) { k.Run = "two words" },
		"an escape":         func(k *Ticket) { k.Run = "a\x1b[2J" },
		"a long name":       func(k *Ticket) { k.Run = strings.Repeat("a", MaxRun+1) },
		"no run ID":         func(k *Ticket) { k.RunID = slot.Root{} },
		"no pin":            func(k *Ticket) { k.Pin = slot.Root{} },
		"no address":        func(k *Ticket) { k.Addrs = nil },
		"too many":          func(k *Ticket) { k.Addrs = make([]string, MaxAddrs+1) },
		"no peer":           func(k *Ticket) { k.Addrs = []string{"/ip4/1.2.3.4/tcp/1"} },
		"a peer alone":      func(k *Ticket) { k.Addrs = []string{"/p2p/" + idA} },
		"an odd spelling":   func(k *Ticket) { k.Addrs = []string{"/ip4/1.2.3.4/tcp/1/ipfs/" + idA} },
		"half a second":     func(k *Ticket) { k.Expires = time.Unix(1, 5) },
		"before 1970":       func(k *Ticket) { k.Expires = time.Unix(-1, 0) },
		"a token for none":  func(k *Ticket) { k.Token.Uses = 0 },
		"a token for ever":  func(k *Ticket) { k.Expires = time.Time{} },
		"a token for crowd": func(k *Ticket) { k.Token.Uses = MaxUses + 1 },
	} {
		k := private()
		spoil(&k)
		if s, err := k.Encode(); err == nil {
			t.Errorf("%s: %s", name, s)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, k := range []Ticket{sample(), private()} {
		f.Add(text(f, k))
	}
	f.Fuzz(func(t *testing.T, s string) {
		k, err := Parse(s)
		if err != nil {
			return
		}
		if again, err := k.Encode(); err != nil || again != squeeze(s) {
			t.Errorf("%q is read as %+v, which is written %q, %v", s, k, again, err)
		}
	})
}

// FuzzBytes gets past the checksum.
func FuzzBytes(f *testing.F) {
	for _, k := range []Ticket{sample(), private()} {
		f.Add(k.append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if k, err := parse(b); err == nil && string(k.append(nil)) != string(b) {
			t.Errorf("%x is read as %+v", b, k)
		}
	})
}

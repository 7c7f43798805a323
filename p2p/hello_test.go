package p2p

import (
	"bytes"
	"encoding/hex"
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/limits"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// pair makes two connected Networks.
func pair(t *testing.T) (s *sim.Net, a, b *Network) {
	t.Helper()
	s = sim.New(t, 2, 10*time.Millisecond)
	a, b = simulated(t, s, 0, LAN()), simulated(t, s, 1, LAN())
	s.Connect(0, 1)
	return s, a, b
}

func sampleHello() Hello {
	return Hello{
		Version: wire.Version, Run: "run", Given: map[string]string{"h": "25", "codec": "f32"},
		Spec: []byte("the spec"), Incarnation: 1 << 63, UserAgent: "test", Timing: "lan",
		Slot: 7, Members: 3,
	}
}

func sameHello(a, b Hello) bool {
	return a.Version == b.Version && a.Run == b.Run && maps.Equal(a.Given, b.Given) && bytes.Equal(a.Spec, b.Spec) &&
		a.Incarnation == b.Incarnation && a.UserAgent == b.UserAgent && a.Timing == b.Timing &&
		a.Slot == b.Slot && a.Members == b.Members
}

func TestHello(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		var asked Hello
		answer := sampleHello()
		answer.Spec = bytes.Repeat([]byte{1, 2, 3}, MaxSpec/3)
		b.SetHello(func(from slot.PeerID, theirs Hello) (Hello, error) {
			if from != a.ID() {
				t.Errorf("hello from %s, want %s", from, a.ID())
			}
			asked = theirs
			return answer, nil
		})
		got, err := a.Hello(t.Context(), b.ID(), sampleHello())
		if err != nil || !sameHello(got, answer) {
			t.Errorf("answer of %d bytes of spec, %v", len(got.Spec), err)
		}
		if !sameHello(asked, sampleHello()) {
			t.Errorf("the other side was asked %+v", asked)
		}
	})
}

func TestHelloRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		b.SetHello(func(slot.PeerID, Hello) (Hello, error) {
			return Hello{}, errors.New("the run has H = 500,\nyou were given 25\x1b[2J")
		})
		_, err := a.Hello(t.Context(), b.ID(), sampleHello())
		var refused *HelloRefused
		if !errors.As(err, &refused) || refused.Peer != b.ID() ||
			refused.Reason != "the run has H = 500, you were given 25[2J" {
			t.Errorf("error %v", err)
		}
		if a.env.Greeted.Has(peer.ID(b.ID()), time.Now()) || b.env.Greeted.Has(peer.ID(a.ID()), time.Now()) {
			t.Error("who is refused is greeted")
		}
	})
}

func TestHelloOfAnotherVersionIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		b.SetHello(func(slot.PeerID, Hello) (Hello, error) { return sampleHello(), nil })
		h := sampleHello()
		h.Version = 2
		raw, err := appendHello(nil, h)
		if err != nil {
			t.Fatal(err)
		}
		s, err := a.Open(t.Context(), b.ID(), ProtocolHello)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		reply, _, err := a.ask(s, raw, func() {})
		if err != nil {
			t.Fatal(err)
		}
		var refused *HelloRefused
		if _, err := parseReply(b.ID(), reply); !errors.As(err, &refused) ||
			!strings.Contains(refused.Reason,
				"your program is of protocol version 2, not 3-dev: a release that speaks version 2") {
			t.Errorf("error %v", err)
		}
	})
}

func TestHelloSurvivesBadPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		calls := 0
		b.SetHello(func(slot.PeerID, Hello) (Hello, error) { calls++; return sampleHello(), nil })
		for name, raw := range map[string][]byte{
			"garbage":   append([]byte{0, 0, 0, 4}, 0xff, 0xff, 0xff, 0xff),
			"oversized": {0xff, 0xff, 0xff, 0xff},
			"truncated": {0, 0, 1, 0, 1},
		} {
			s, err := a.Open(t.Context(), b.ID(), ProtocolHello)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Write(raw); err != nil {
				t.Fatal(err)
			}
			_ = s.CloseWrite()
			if _, err := wire.ReadMessage(s, maxHello); err == nil {
				t.Errorf("%s: an answer came", name)
			}
			_ = s.Close()
		}
		if calls != 0 {
			t.Errorf("%d bad hellos reached the handler", calls)
		}
		for name, answer := range map[string]func(wire.Stream){
			"silent":   func(s wire.Stream) { _, _ = s.Read(make([]byte, 1<<20)); time.Sleep(time.Hour) },
			"garbage":  func(s wire.Stream) { _ = wire.WriteMessage(s, []byte{0xff}) },
			"nothing":  func(s wire.Stream) { _ = wire.WriteMessage(s, nil) },
			"endless":  func(s wire.Stream) { _, _ = s.Write([]byte{0xff, 0xff, 0xff, 0xff}) },
			"hangs up": func(s wire.Stream) { _ = s.Reset() },
		} {
			b.Handle(ProtocolHello, func(_ slot.PeerID, s wire.Stream) { answer(s) })
			start := time.Now()
			if _, err := a.Hello(t.Context(), b.ID(), sampleHello()); err == nil {
				t.Errorf("%s: no error", name)
			}
			if d := time.Since(start); d > helloTimeout {
				t.Errorf("%s: gave up after %s", name, d)
			}
		}
	})
}

func TestHelloBounds(t *testing.T) {
	many := make(map[string]string)
	for i := range maxGiven + 1 {
		many[strings.Repeat("k", i+1)] = ""
	}
	for name, h := range map[string]Hello{
		"run":        {Run: strings.Repeat("r", limits.MaxRunName+1)},
		"spec":       {Spec: make([]byte, MaxSpec+1)},
		"fields":     {Given: many},
		"key":        {Given: map[string]string{strings.Repeat("k", maxGivenKey+1): ""}},
		"value":      {Given: map[string]string{"k": strings.Repeat("v", maxGivenText+1)}},
		"timing":     {Timing: strings.Repeat("t", maxTiming+1)},
		"user agent": {UserAgent: strings.Repeat("u", maxUserAgent+1)},
	} {
		if _, err := appendHello(nil, h); !errors.Is(err, wire.ErrTooLarge) {
			t.Errorf("%s: encoded, error %v", name, err)
		}
		h.Version = wire.Version
		if _, err := parseHello(h.append(nil)); name != "user agent" && !errors.Is(err, wire.ErrTooLarge) {
			t.Errorf("%s: parsed, error %v", name, err)
		}
	}
	full := Hello{
		Run:   strings.Repeat("r", limits.MaxRunName),
		Spec:  make([]byte, MaxSpec),
		Given: make(map[string]string),
	}
	for i := range maxGiven {
		full.Given[strings.Repeat("k", i+1)] = strings.Repeat("v", maxGivenText)
	}
	if b, err := appendHello(nil, full); err != nil || len(b) > maxHello {
		t.Errorf("the largest hello: %d bytes, %v; a message holds %d", len(b), err, maxHello)
	}
}

// TestHelloOfAnotherRunIsNoGreeting: only who is of the same run is served by a relay for it, on
// whichever side the answer was one.
func TestHelloOfAnotherRunIsNoGreeting(t *testing.T) {
	for _, answer := range []string{"run", "another"} {
		synctest.Test(t, func(t *testing.T) {
			_, a, b := pair(t)
			b.SetHello(func(slot.PeerID, Hello) (Hello, error) { return Hello{Run: answer}, nil })
			if _, err := a.Hello(t.Context(), b.ID(), Hello{Run: "run"}); err != nil {
				t.Fatal(err)
			}
			now, want := time.Now(), answer == "run"
			if got := a.env.Greeted.Has(peer.ID(b.ID()), now); got != want {
				t.Errorf("answered as of run %q: greeted %v", answer, got)
			}
			if got := b.env.Greeted.Has(peer.ID(a.ID()), now); got != want {
				t.Errorf("answering as of run %q: greeted %v", answer, got)
			}
			if a.env.Greeted.Has(peer.ID(b.ID()), now.Add(peers.GreetedTerm)) {
				t.Error("greeted for ever")
			}
		})
	}
}

// The bytes of a hello are part of the protocol.
func TestGoldenHello(t *testing.T) {
	b, err := appendHello(nil, sampleHello())
	noError(t, err)
	testutil.Golden(t, "testdata/hello.txt", hex.Dump(b))
}

// Of two hellos with the same bytes neither may say another thing: names come in order, and nothing
// follows.
func TestHelloIsCanonical(t *testing.T) {
	b, err := appendHello(nil, sampleHello())
	noError(t, err)
	if h, err := parseHello(b); err != nil || !sameHello(h, sampleHello()) {
		t.Errorf("%+v, %v", h, err)
	}
	swapped := bytes.Replace(b, []byte("\x00\x00\x00\x05codec\x00\x00\x00\x03f32\x00\x00\x00\x01h\x00\x00\x00\x0225"),
		[]byte("\x00\x00\x00\x01h\x00\x00\x00\x0225\x00\x00\x00\x05codec\x00\x00\x00\x03f32"), 1)
	for name, bad := range map[string][]byte{"more": append(b, 0), "less": b[:len(b)-1], "swapped": swapped} {
		if _, err := parseHello(bad); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParseHello(f *testing.F) {
	b, err := appendHello(nil, sampleHello())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHello(b)
		if err != nil || h.Version != wire.Version { // of another version no more is read
			return
		}
		if h.UserAgent == "" {
			h.UserAgent = userAgent
		}
		raw, err := appendHello(nil, h)
		if err != nil {
			t.Fatalf("a hello that parsed cannot be encoded: %v", err)
		}
		if again, err := parseHello(raw); err != nil || !sameHello(h, again) {
			t.Errorf("parsed %+v, then %+v, %v", h, again, err)
		}
		if reply, err := parseReply("peer", append([]byte{replyHello}, raw...)); err != nil || !sameHello(h, reply) {
			t.Errorf("answered %+v, %v", reply, err)
		}
	})
}

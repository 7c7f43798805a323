package gossip

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"go.uber.org/goleak"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

func init() { testutil.OneCPU() }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const name = "p2pdiloco/test"

// heard keeps what one topic delivered.
type heard struct {
	mu struct {
		sync.Mutex
		all []string
	}
}

func (h *heard) deliver(from slot.PeerID, kind uint8, body []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.all = append(h.mu.all, fmt.Sprintf("%s %d %.40s", from.Short(), kind, body))
}

func (h *heard) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.mu.all
	h.mu.all = nil
	slices.Sort(all)
	return all
}

// line joins the hosts of a network, connected in a line, so that what reaches the far end was
// passed on.
func line(t *testing.T, s *sim.Net, change func(i int, c *Config)) ([]*Topic, []*heard) {
	t.Helper()
	topics, ears := make([]*Topic, len(s.Hosts)), make([]*heard, len(s.Hosts))
	for i, h := range s.Hosts {
		ears[i] = &heard{}
		cfg := Config{Topic: name, Boot: 1, Kinds: []uint8{1, 2}, Deliver: ears[i].deliver, Heartbeat: LANHeartbeat}
		if change != nil {
			change(i, &cfg)
		}
		topics[i] = join(t, h, cfg)
		if i > 0 {
			s.Connect(i, i-1)
		}
	}
	time.Sleep(2 * time.Second)
	return topics, ears
}

func join(t *testing.T, h host.Host, cfg Config) *Topic {
	t.Helper()
	topic, err := Join(t.Context(), h, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = topic.Close() })
	return topic
}

func expect(t *testing.T, who string, h *heard, want ...string) {
	t.Helper()
	time.Sleep(3 * time.Second)
	if got := h.take(); !slices.Equal(got, want) {
		t.Errorf("%s heard %q, want %q", who, got, want)
	}
}

func TestReachesAllButTheAuthor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 8, 20*time.Millisecond)
		topics, ears := line(t, s, nil)
		if err := topics[0].Publish(t.Context(), 1, []byte("good morning")); err != nil {
			t.Fatal(err)
		}
		big := make([]byte, MaxBody)
		if err := topics[7].Publish(t.Context(), 2, big); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		for i, h := range ears {
			if got, want := len(h.take()), 2; got != want && i != 0 && i != 7 || (i == 0 || i == 7) && got != 1 {
				t.Errorf("host %d heard %d announcements", i, got)
			}
		}
		if n := len(topics[1].Peers()); n != 2 {
			t.Errorf("host 1 has %d neighbours in the topic, want 2", n)
		}
	})
}

func TestPublishRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 1, time.Millisecond)
		topics, _ := line(t, s, nil)
		if err := topics[0].Publish(t.Context(), 9, nil); err == nil {
			t.Error("an unknown kind was announced")
		}
		if err := topics[0].Publish(t.Context(), 1, make([]byte, MaxBody+1)); err == nil {
			t.Error("an oversized body was announced")
		}
		_ = topics[0].Close()
		if err := topics[0].Publish(t.Context(), 1, nil); !errors.Is(err, net.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		if _, err := Join(t.Context(), s.Hosts[0], Config{}); err == nil {
			t.Error("an empty configuration was accepted")
		}
	})
}

func TestRestartedAuthorIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 2, time.Millisecond)
		topics, ears := line(t, s, func(i int, c *Config) { c.Boot = 5 })
		self := slot.PeerID(s.Hosts[0].ID()).Short()
		say := func(topic *Topic, text string) {
			t.Helper()
			if err := topic.Publish(t.Context(), 1, []byte(text)); err != nil {
				t.Error(err)
			}
		}
		say(topics[0], "one")
		expect(t, "host 1", ears[1], self+" 1 one")
		for _, boot := range []uint64{4, 6} {
			_ = topics[0].Close()
			topics[0] = join(t, s.Hosts[0], Config{
				Topic: name, Boot: boot, Kinds: []uint8{1},
				Deliver: ears[0].deliver,
			})
			time.Sleep(10 * time.Second)
			say(topics[0], "again")
			if boot < 5 {
				expect(t, "host 1", ears[1])
			} else {
				expect(t, "host 1", ears[1], self+" 1 again")
			}
		}
	})
}

func TestCheckDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 3, time.Millisecond)
		topics, ears := line(t, s, func(i int, c *Config) {
			if i == 1 {
				c.Check = func(_ slot.PeerID, kind uint8, _ []byte) bool { return kind != 2 }
			}
		})
		self := slot.PeerID(s.Hosts[0].ID()).Short()
		for kind, body := range map[uint8]string{1: "fine", 2: "false"} {
			if err := topics[0].Publish(t.Context(), kind, []byte(body)); err != nil {
				t.Fatal(err)
			}
		}
		expect(t, "host 1", ears[1], self+" 1 fine")
		expect(t, "host 2, behind it", ears[2], self+" 1 fine")
	})
}

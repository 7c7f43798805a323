package discovery

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
)

// movable is a host whose machine gets other addresses.
type movable struct {
	host.Host
	at atomic.Pointer[multiaddr.Multiaddr]
}

type movableNetwork struct {
	network.Network
	h *movable
}

func (h *movable) Network() network.Network { return movableNetwork{h.Host.Network(), h} }

func (n movableNetwork) InterfaceListenAddresses() ([]multiaddr.Multiaddr, error) {
	return []multiaddr.Multiaddr{*n.h.at.Load()}, nil
}

// services are those on the local network that were started.
type services struct {
	sync.Mutex
	up      bool // the network is
	running int
	told    []string // an address by each
}

func (s *services) start(at string) (io.Closer, error) {
	s.Lock()
	defer s.Unlock()
	if !s.up {
		return nil, errors.New("no interface")
	}
	s.running++
	s.told = append(s.told, at)
	return s, nil
}

func (s *services) Close() error {
	s.Lock()
	defer s.Unlock()
	s.running--
	return nil
}

func (s *services) have(t *testing.T, running, started int, last string) {
	t.Helper()
	s.Lock()
	defer s.Unlock()
	if s.running != running || len(s.told) != started || started > 0 && s.told[started-1] != last {
		t.Errorf("%d services run, which told %v, want %d of %d, the last one with %s", s.running, s.told, running,
			started, last)
	}
	s.up = true
}

// A peer that starts before its network is up looks for others on it once it is, and tells its new
// addresses when it gets others: what was started at first would say nothing, or what was true
// then, for as long as the process lives.
func TestTheLocalSearchFollowsTheMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 1, time.Millisecond)
		h := &movable{Host: s.Hosts[0]}
		move := func(to string) {
			a := multiaddr.StringCast(to)
			h.at.Store(&a)
		}
		const docker, home = "/ip4/172.17.0.1/tcp/1", "/ip4/192.168.0.7/tcp/1"
		move(docker)
		cfg := wan()
		cfg.MDNS = true
		n := newNode(t, h, cfg)
		f := newFinder(n.env, cfg.Config, NewPlaces("run"))
		var lan services
		local := localSearch{f: f, start: func(string, mdnsFound) (io.Closer, error) {
			return lan.start(f.localAddrs()[0].String())
		}}
		stop := local.begin(t.Context(), []string{"run"})
		time.Sleep(10 * time.Minute)
		lan.have(t, 0, 0, "") // the network comes up now
		time.Sleep(localRetryMax + time.Second)
		lan.have(t, 1, 1, docker)
		time.Sleep(time.Hour)
		lan.have(t, 1, 1, docker)
		move(home)
		time.Sleep(2 * localLook)
		lan.have(t, 1, 2, home)
		stop()
		lan.have(t, 0, 2, home)
	})
}

func TestMDNSServiceName(t *testing.T) {
	seen := make(map[string]bool)
	for i := range 100 {
		s := mdnsService(fmt.Sprint("run ", i))
		label, _, _ := strings.Cut(strings.TrimPrefix(s, "_"), ".")
		if len(label) > 15 || seen[s] || !strings.HasSuffix(s, "._udp") {
			t.Errorf("service %q", s)
		}
		seen[s] = true
	}
}

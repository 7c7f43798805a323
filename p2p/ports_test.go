package p2p

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// started makes a Network that remembers its ports, and says where it listens.
func started(t *testing.T, file string) (n *Network, listens []string) {
	t.Helper()
	n, err := New(t.Context(), Config{PortsFile: file})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	for _, a := range defaultListen {
		listens = append(listens, listeningAs(n.Host(), a)...)
	}
	return n, listens
}

func TestPortsStayTheSame(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ports")
	n, first := started(t, file)
	if len(first) < 2 || slices.Contains(first, defaultListen[0]) {
		t.Fatalf("it listens on %v", first)
	}
	noError(t, n.Close())
	n, second := started(t, file)
	if !slices.Equal(first, second) {
		t.Errorf("it listened on %v, and after a restart on %v", first, second)
	}
	noError(t, n.Close())
	// somebody else takes one of them
	taken := strings.Split(first[0], "/")
	l, err := net.Listen("tcp4", "0.0.0.0:"+taken[len(taken)-1])
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n, third := started(t, file)
	if len(third) != len(first) || third[0] == first[0] || !slices.Equal(third[1:], first[1:]) {
		t.Errorf("it listened on %v; when the first is taken, on %v", first, third)
	}
	noError(t, n.Close())
	n, fourth := started(t, file)
	if !slices.Equal(third, fourth) {
		t.Errorf("it listened on %v, and after a restart on %v", third, fourth)
	}
	// the other program ends, and the addresses that were handed out hold again
	noError(t, errors.Join(n.Close(), l.Close()))
	if _, fifth := started(t, file); !slices.Equal(first, fifth) {
		t.Errorf("it listened on %v, and once all ports are free again on %v", first, fifth)
	}
}

// Port 0 of an address that is given is a free port at the first start, and the same after a
// restart. A port that is given is taken, whatever is remembered, and not remembered itself.
func TestGivenAddressesKeepTheirPorts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ports")
	start := func(listen ...string) (got []string) {
		t.Helper()
		n, err := New(t.Context(), Config{PortsFile: file, Listen: listen})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range n.Host().Network().ListenAddresses() {
			if s := a.String(); strings.HasPrefix(s, "/ip4/127.0.0.1/") {
				got = append(got, s)
			}
		}
		noError(t, n.Close())
		slices.Sort(got)
		return got
	}
	free := []string{"/ip4/127.0.0.1/tcp/0", "/ip4/127.0.0.1/udp/0/quic-v1", "/ip4/127.0.0.1/tcp/0"}
	first := start(free...)
	if len(first) != 3 {
		t.Fatalf("it listens on %v", first)
	}
	if second := start(free...); !slices.Equal(first, second) {
		t.Errorf("it listened on %v, and after a restart on %v", first, second)
	}
	// the port of one kind that is given, and a free one of that kind, in either order
	for range 3 {
		for _, listen := range [][]string{{free[0], first[0]}, {first[0], free[0]}} {
			if got := start(listen...); len(got) != 2 || !slices.Contains(got, first[0]) {
				t.Errorf("it listens on %v, not on %s and another port", got, first[0])
			}
		}
	}
	first = start(free...)
	fixed := first[0] // one that is free now, and given by its number
	if got := start(fixed); !slices.Equal(got, []string{fixed}) {
		t.Errorf("it listens on %v, not %s", got, fixed)
	}
	if third := start(free...); !slices.Equal(first, third) {
		t.Errorf("it listened on %v, and after a start with a fixed port on %v", first, third)
	}
}

func TestABadPortsFileIsDoneWithout(t *testing.T) {
	for name, content := range map[string]string{
		"garbage": "\x00garbage", "another's": "/ip4/203.0.113.1/tcp/80\n", "huge": strings.Repeat("x", maxPortsFile+1),
		"no port": "/ip4/0.0.0.0/tcp/99999\n",
	} {
		file := filepath.Join(t.TempDir(), "ports")
		noError(t, os.WriteFile(file, []byte(content), 0o600))
		n, now := started(t, file)
		kept, err := loadPorts(file)
		if len(now) < 2 || err != nil || !slices.Equal(kept, now) {
			t.Errorf("%s: it listens on %v and remembers %v, %v", name, now, kept, err)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}
}

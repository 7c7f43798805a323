package lab

import (
	"encoding/binary"
	"net/netip"
	"testing"
)

// ipv4 is the header of a packet to an address.
func ipv4(to netip.Addr) []byte {
	b := make([]byte, 20)
	b[0] = 0x45
	copy(b[16:], to.AsSlice())
	return b
}

func TestPacketsGoToTheirNode(t *testing.T) {
	cfg := Config{Nodes: 300}.withDefaults()
	for i := range cfg.Nodes {
		if got, ok := cfg.destination(ipv4(cfg.addr(i))); !ok || got != i {
			t.Fatalf("%v is node %d, %v; want %d", cfg.addr(i), got, ok, i)
		}
	}
	if first, last := cfg.addr(0).String(), cfg.addr(299).String(); first != "10.213.0.1" || last != "10.213.1.44" {
		t.Errorf("addresses from %s to %s", first, last)
	}
	for _, other := range []string{"10.213.0.0", "10.213.1.45", "224.0.0.251", "255.255.255.255", "0.0.0.0"} {
		if node, ok := cfg.destination(ipv4(netip.MustParseAddr(other))); ok {
			t.Errorf("%s is node %d", other, node)
		}
	}
}

// FuzzDestination: any bytes go to a node that exists, or nowhere.
func FuzzDestination(f *testing.F) {
	cfg := Config{Nodes: 5}.withDefaults()
	f.Add(ipv4(cfg.addr(3)))
	f.Add(ipv4(netip.MustParseAddr("224.0.0.251")))
	f.Add([]byte{0x60})
	f.Fuzz(func(t *testing.T, data []byte) {
		node, ok := cfg.destination(data)
		if ok && (node < 0 || node >= 5 || data[0]>>4 != 4 ||
			binary.BigEndian.Uint32(data[16:]) != 10<<24|213<<16|uint32(node)+1) {
			t.Errorf("%x goes to node %d", data, node)
		}
	})
}

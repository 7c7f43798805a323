package lab

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"time"
)

// Config describes a network. The zero values of MTU and Network stand for defaults.
type Config struct {
	Nodes int
	Link  Link   // of every node, until SetLink
	MTU   int    // bytes of an IP packet, 1500 by default
	Name  string // what the namespaces' names begin with: lower-case letters and digits
	// IPv4 addresses of the nodes, the first one's ending in .1; 10.213.0.0/16 by default
	Network netip.Prefix
}

// A Link is what lies between a node and the middle of the network, the same in both directions: a
// packet crosses its sender's link and then its receiver's. The zero value carries everything at
// once.
type Link struct {
	Rate int64 // bits of IP packets a second; 0: without limit
	// from one end to the other; four of them make the round trip between two equal nodes
	Delay time.Duration
	Loss  int // packets of a thousand that vanish, drawn for each
}

const (
	perMille   = 1000
	leastQueue = 64 << 10
)

// queue is how many bytes may wait for a link with a Rate: what it sends in 100 ms.
func (l Link) queue() int { return max(leastQueue, int(l.Rate/8/10)) }

// sending is how long the transmitter is busy with a packet of size bytes.
func (l Link) sending(size int) time.Duration {
	if l.Rate == 0 {
		return 0
	}
	return time.Duration(int64(size) * 8 * int64(time.Second) / l.Rate)
}

func (c Config) withDefaults() Config {
	c.MTU = cmp.Or(c.MTU, 1500)
	c.Network = cmp.Or(c.Network, netip.MustParsePrefix("10.213.0.0/16"))
	return c
}

// first is the network's own address, as a number.
func (c Config) first() uint32 { return binary.BigEndian.Uint32(c.Network.Addr().AsSlice()) }

// addr is node i's address.
func (c Config) addr(i int) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, c.first()+uint32(i)+1)))
}

// destination is the node that a packet goes to. Only IPv4 packets to a node's own address go
// anywhere: there is no broadcast, no multicast and nothing outside, as between strangers on the
// internet.
func (c Config) destination(data []byte) (node int, ok bool) {
	const ipv4Header = 20
	if len(data) < ipv4Header || data[0]>>4 != 4 {
		return 0, false
	}
	node = int(binary.BigEndian.Uint32(data[16:])) - int(c.first()) - 1
	return node, node >= 0 && node < c.Nodes
}

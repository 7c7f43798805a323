package lab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
)

// Config describes a lab. The zero value of every field but Nodes has a default.
type Config struct {
	Nodes int  // how many, at most maxNodes
	Link  Link // of every node, until SetLink
	MTU   int  // bytes of an IP packet, 1500 by default
	// what the namespaces' names begin with, DefaultName by default: lower-case letters and digits
	Name string
	// IPv4 addresses of the nodes, the first one's ending in .1; 10.213.0.0/16 by default
	Network netip.Prefix
	Seed    uint64 // of loss
}

// maxNodes bounds a lab's size.
const maxNodes = 500

// DefaultName is the usual beginning of namespaces' names.
const DefaultName = "p2plab"

const (
	defaultMTU = 1500
	minMTU     = 576   // every IPv4 host takes so much
	maxMTU     = 65520 // the kernel's bound for a TUN device is 65535
)

var nameForm = regexp.MustCompile(`^[a-z][a-z0-9]{0,15}$`)

func nameFault(name string) error {
	return fmt.Errorf("name %q: a lower-case letter and up to 15 letters or digits", name)
}

func (c Config) withDefaults() Config {
	if c.MTU == 0 {
		c.MTU = defaultMTU
	}
	if c.Name == "" {
		c.Name = DefaultName
	}
	if !c.Network.IsValid() {
		c.Network = netip.MustParsePrefix("10.213.0.0/16")
	}
	return c
}

// Validate reports all that is wrong with c.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	if c.Nodes < 1 || c.Nodes > maxNodes {
		errs = append(errs, fmt.Errorf("%d nodes: from 1 to %d", c.Nodes, maxNodes))
	}
	if c.MTU < minMTU || c.MTU > maxMTU {
		errs = append(errs, fmt.Errorf("MTU %d: from %d to %d", c.MTU, minMTU, maxMTU))
	}
	if !nameForm.MatchString(c.Name) {
		errs = append(errs, nameFault(c.Name))
	}
	switch {
	case !c.Network.Addr().Is4():
		errs = append(errs, fmt.Errorf("network %v: an IPv4 prefix such as 10.213.0.0/16", c.Network))
	case c.Nodes > 1<<(32-c.Network.Bits())-2: // the first and the last address are nobody's
		errs = append(errs, fmt.Errorf("network %v has no room for %d nodes", c.Network, c.Nodes))
	}
	return errors.Join(append(errs, c.Link.Validate())...)
}

// addr is node i's address.
func (c Config) addr(i int) netip.Addr {
	first := c.Network.Masked().Addr().As4()
	binary.BigEndian.PutUint32(first[:], binary.BigEndian.Uint32(first[:])+uint32(i)+1)
	return netip.AddrFrom4(first)
}

// destination is the node that a packet goes to. Only IPv4 packets to a node's own address go
// anywhere: there is no broadcast, no multicast and nothing outside, as between strangers on the
// internet.
func (c Config) destination(data []byte) (node int, ok bool) {
	const ipv4Header = 20
	if len(data) < ipv4Header || data[0]>>4 != 4 {
		return 0, false
	}
	first := c.Network.Masked().Addr().As4()
	node = int(binary.BigEndian.Uint32(data[16:20])) - int(binary.BigEndian.Uint32(first[:])) - 1
	return node, node >= 0 && node < c.Nodes
}

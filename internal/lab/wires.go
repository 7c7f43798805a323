package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Bounds of what leaves at once. A token bucket makes up for a pause as long as its burst, so the
// burst is as small as possible: two of the kernel's largest packets, which are split only where
// they arrive, or what the rate sends in a millisecond.
const (
	largestPacket = 16 << 10 // gso_max_size of the links
	leastBurst    = 2 * largestPacket
)

// ethernetHeader is what a token bucket counts beside an IP packet.
const ethernetHeader = 14

// NewWires makes nodes whose links the kernel makes: a veth pair each, from the node's namespace
// into a bridge in one more, and a token bucket (tbf) on what the node sends. They have a rate and
// a queue, no delay, loss or cuts, and cannot be changed; what a node receives is limited by the
// senders only. They leave the CPU time that a Lab's forwarder takes to the processes that are
// measured. Of cfg's Link only Rate counts. Leftovers, errors and ctx are as New's.
func NewWires(ctx context.Context, cfg Config) (*Hosts, error) {
	h, err := newHosts(ctx, cfg, cfg.Nodes+1)
	if err != nil {
		return nil, err
	}
	nodes := h.spaces[:cfg.Nodes]
	err = h.spaces[cfg.Nodes].IP(ctx, bridgeScript(h.cfg, nodes))
	for i, s := range nodes {
		if err == nil {
			err = s.IP(ctx, nodeScript(h.cfg, i))
		}
		if err == nil && cfg.Link.Rate != 0 {
			err = s.Run(ctx, "qdisc add dev "+deviceName+" root "+h.cfg.bucket()+"\n", "tc", "-batch", "-")
		}
	}
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return &h, nil
}

// deviceName is that of the device in every node's namespace.
const deviceName = "lab0"

// bridgeScript is what `ip -batch` makes in the bridge's namespace: all pairs, their far ends put
// into the nodes' namespaces.
func bridgeScript(cfg Config, nodes []Space) string {
	var b strings.Builder
	fmt.Fprintf(&b, "link add bridge0 mtu %d type bridge stp_state 0 forward_delay 0 mcast_snooping 0\n"+
		"link set bridge0 addrgenmode none up\n", cfg.MTU)
	for i, node := range nodes {
		fmt.Fprintf(&b, "link add port%[1]d mtu %[2]d type veth peer name %[3]s mtu %[2]d netns %[4]s\n"+
			"link set port%[1]d addrgenmode none gso_max_size %[5]d master bridge0 up\n",
			i, cfg.MTU, deviceName, node, largestPacket)
	}
	return b.String()
}

// nodeScript is what `ip -batch` does in node i's namespace. There are no IPv6 addresses: nodes
// have the one that Addr says. The kernel holds more packets until they are read than its default
// of 500: this process may get no CPU time for some milliseconds, and only the links should drop
// packets.
func nodeScript(cfg Config, i int) string {
	return fmt.Sprintf("link set lo up\n"+
		"link set %[1]s mtu %[2]d txqueuelen 4096 addrgenmode none gso_max_size %[3]d up\n"+
		"addr add %[4]v/%[5]d dev %[1]s\n", deviceName, cfg.MTU, largestPacket, cfg.addr(i), cfg.Network.Bits())
}

// bucket is what follows `tc qdisc add dev DEVICE root` for a link.
//
// A Link's rate counts IP packets, the bucket's counts Ethernet's header too, so it is greater by
// what a full packet has of it. (tc has an option for that, but it counts a packet of several
// segments once.) Small packets cost a little more than on a Lab's links.
func (c Config) bucket() string {
	rate := c.Link.Rate * int64(c.MTU+ethernetHeader) / int64(c.MTU)
	burst := max(leastBurst, rate/8/1000)
	return fmt.Sprintf("tbf rate %dbit burst %db limit %db", rate, burst, int64(c.Link.queue())+burst)
}

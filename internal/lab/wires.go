package lab

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
)

// Wires are nodes whose links the kernel makes: a veth pair each, from the node's namespace into a
// bridge in one more, and a token bucket (tbf) on what the node sends. They have a rate and a
// queue, no delay, loss or cuts, and cannot be changed; what a node receives is limited by
// the senders only. They leave the CPU time that a Lab's forwarder takes to the processes that are
// measured.
type Wires struct {
	hosts
	bridge Space
	once   sync.Once
	err    error
}

// Bounds of what leaves at once. A token bucket makes up for a pause as long as its burst, so the
// burst is as small as possible: two of the kernel's largest packets, which are split only where
// they arrive, or what the rate sends in a millisecond.
const (
	largestPacket = 16 << 10 // gso_max_size of the links
	leastBurst    = 2 * largestPacket
)

// ethernetHeader is what a token bucket counts beside an IP packet.
const ethernetHeader = 14

// NewWires makes nodes with cfg's Link, of which only Rate may be set. It needs root and
// iproute2, and removes first what crashed owners of namespaces of this Name left. ctx ends the
// making only.
func NewWires(ctx context.Context, cfg Config) (*Wires, error) {
	err := cfg.Validate()
	if l := cfg.Link; l.Delay != 0 || l.Loss != 0 {
		err = errors.Join(err, errors.New("the kernel's links have a rate only: for delay and loss take New"))
	}
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	cfg = cfg.withDefaults()
	spaces, err := NewSpaces(ctx, cfg.Name, cfg.Nodes+1)
	if err != nil {
		return nil, err
	}
	w := &Wires{hosts: hosts{cfg, spaces[:cfg.Nodes]}, bridge: spaces[cfg.Nodes]}
	if err := w.connect(ctx); err != nil {
		return nil, fmt.Errorf("lab: %w", errors.Join(err, w.Close()))
	}
	return w, nil
}

// Close removes the namespaces; the processes in them have ended.
func (w *Wires) Close() error {
	w.once.Do(func() { w.err = RemoveSpaces(append(w.spaces, w.bridge)) })
	return w.err
}

// connect makes the links, and gives each node's end of its pair the link's rate.
func (w *Wires) connect(ctx context.Context) error {
	if err := iproute(ctx, bridgeScript(w.cfg, w.spaces), "ip", "-n", string(w.bridge), "-batch", "-"); err != nil {
		return err
	}
	for i, node := range w.spaces {
		if err := iproute(ctx, nodeScript(w.cfg, i), "ip", "-n", string(node), "-batch", "-"); err != nil {
			return err
		}
		if w.cfg.Link.Rate == 0 {
			continue
		}
		add := []string{"-n", string(node), "qdisc", "add", "dev", wireName, "root"}
		if err := iproute(ctx, "", "tc", append(add, w.cfg.bucket()...)...); err != nil {
			return err
		}
	}
	return nil
}

// iproute runs a program of iproute2.
func iproute(ctx context.Context, stdin, program string, args ...string) error {
	path, err := exec.LookPath(program)
	if err != nil {
		return fmt.Errorf("%w: install iproute2", err)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s (this needs the kernel's veth, bridge and sch_tbf)", program,
			strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

const (
	wireName   = "lab0" // in every node's namespace
	bridgeName = "bridge0"
)

// bridgeScript is what `ip -batch` makes in the bridge's namespace: all pairs, their far ends put
// into the nodes' namespaces.
func bridgeScript(cfg Config, nodes []Space) string {
	var b strings.Builder
	fmt.Fprintf(&b, "link add %s mtu %d type bridge stp_state 0 forward_delay 0 mcast_snooping 0\n", bridgeName,
		cfg.MTU)
	fmt.Fprintf(&b, "link set %s addrgenmode none up\n", bridgeName)
	for i, node := range nodes {
		port := fmt.Sprintf("port%d", i)
		fmt.Fprintf(&b, "link add %s mtu %d type veth peer name %s mtu %d netns %s\n", port, cfg.MTU, wireName, cfg.MTU,
			node)
		fmt.Fprintf(&b, "link set %s addrgenmode none gso_max_size %d master %s up\n", port, largestPacket, bridgeName)
	}
	return b.String()
}

// nodeScript is what `ip -batch` does in node i's namespace. There are no IPv6 addresses: nodes
// have the one that Addr says.
func nodeScript(cfg Config, i int) string {
	return fmt.Sprintf("link set lo up\nlink set %[1]s addrgenmode none gso_max_size %[2]d up\naddr add %[3]v/%[4]d "+
		"dev %[1]s\n",
		wireName, largestPacket, cfg.addr(i), cfg.Network.Bits())
}

// bucket is what follows `tc qdisc add dev DEVICE root` for a link.
//
// A Link's rate counts IP packets, the bucket's counts Ethernet's header too, so it is greater by
// what a full packet has of it. (tc has an option for that, but it counts a packet of several
// segments once.) Small packets cost a little more than on a Lab's links.
func (c Config) bucket() []string {
	rate := c.Link.Rate * int64(c.MTU+ethernetHeader) / int64(c.MTU)
	burst := max(leastBurst, rate/8/1000)
	return strings.Fields(fmt.Sprintf("tbf rate %dbit burst %db limit %db", rate, burst, int64(c.Link.queue())+burst))
}

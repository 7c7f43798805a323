package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
)

// Wires are nodes whose links the kernel makes: a veth pair each, from the node's namespace into a
// bridge in one more, and a token bucket (tbf) on what the node sends. They have a rate and a
// queue, no delay, jitter, loss or cuts, and cannot be changed; what a node receives is limited by
// the senders only. They leave the CPU time that a Lab's forwarder takes to the processes that are
// measured.
type Wires struct {
	cfg   Config
	names []string // of the namespaces: the nodes', then the bridge's
	once  sync.Once
	err   error
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

// NewWires makes nodes with cfg's Link, of which only Rate and Queue may be set. It needs root and
// iproute2, and removes first what crashed owners of namespaces of this Name left. ctx ends the
// making only.
func NewWires(ctx context.Context, cfg Config) (*Wires, error) {
	err := cfg.Validate()
	if l := cfg.Link; l.Delay != 0 || l.Jitter != 0 || l.Loss != 0 {
		err = errors.Join(err, errors.New("the kernel's links have a rate only: for delay, jitter and loss take New"))
	}
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	cfg = cfg.withDefaults()
	if _, err := Clean(cfg.Name); err != nil {
		return nil, err
	}
	names, err := makeWires(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("lab: %w", errors.Join(err, removeAll(names)))
	}
	return &Wires{cfg: cfg, names: names}, nil
}

// Nodes is how many there are.
func (w *Wires) Nodes() int { return w.cfg.Nodes }

// Addr is node i's IPv4 address.
func (w *Wires) Addr(i int) netip.Addr { return w.cfg.addr(i) }

// Place makes cmd, which has not been started, run in node i's namespace, as Lab.Place does.
func (w *Wires) Place(i int, cmd *exec.Cmd) error {
	if err := w.check(i); err != nil {
		return err
	}
	return placeIn(w.names[i], cmd)
}

// Do calls f in node i's namespace, as Lab.Do does.
func (w *Wires) Do(i int, f func() error) error {
	if err := w.check(i); err != nil {
		return err
	}
	return doIn(w.names[i], f)
}

func (w *Wires) check(i int) error {
	if i < 0 || i >= w.cfg.Nodes {
		return fmt.Errorf("lab: no node %d: they are numbered from 0 to %d", i, w.cfg.Nodes-1)
	}
	return nil
}

// Close removes the namespaces; the processes in them have ended.
func (w *Wires) Close() error {
	w.once.Do(func() { w.err = removeAll(w.names) })
	return w.err
}

func removeAll(names []string) error {
	var errs []error
	for _, name := range names {
		errs = append(errs, removeNamespace(name))
	}
	return errors.Join(errs...)
}

const (
	wireName   = "lab0" // in every node's namespace
	bridgeName = "bridge0"
)

// bridgeScript is what `ip -batch` makes in the bridge's namespace: all pairs, their far ends put
// into the nodes' namespaces.
func bridgeScript(cfg Config, nodes []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "link add %s mtu %d type bridge stp_state 0 forward_delay 0 mcast_snooping 0\n", bridgeName,
		cfg.MTU)
	fmt.Fprintf(&b, "link set %s addrgenmode none up\n", bridgeName)
	for i, node := range nodes {
		port := portName(i)
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

func portName(i int) string { return fmt.Sprintf("port%d", i) }

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

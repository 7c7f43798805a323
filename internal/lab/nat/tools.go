package nat

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// wire is a cable between a router and a host or router behind it: a pair of veth devices with a
// network of four addresses.
type wire struct {
	inner       lab.Space
	innerDevice string
	inside      netip.Addr
	outer       lab.Space
	outerDevice string
	outside     netip.Addr
}

// connect makes the cable, and makes it the default route of the inner end.
func (c wire) connect(ctx context.Context) error {
	err := ip(ctx, c.outer,
		fmt.Sprintf("link add %s type veth peer name %s netns %s", c.outerDevice, c.innerDevice, c.inner),
		fmt.Sprintf("address add %v/30 dev %s", c.outside, c.outerDevice),
		fmt.Sprintf("link set %s up", c.outerDevice))
	if err != nil {
		return err
	}
	return ip(ctx, c.inner,
		"link set lo up",
		fmt.Sprintf("address add %v/30 dev %s", c.inside, c.innerDevice),
		fmt.Sprintf("link set %s up", c.innerDevice),
		fmt.Sprintf("route add default via %v", c.outside))
}

// makeRouter makes a namespace forward packets by the rules of a kind.
func makeRouter(ctx context.Context, s lab.Space, k Kind, outer string) error {
	err := s.Do(func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) })
	if err != nil {
		return fmt.Errorf("turning forwarding on: %w: /proc/sys must be writable", err)
	}
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules(k, outer))
	return runIn(s, cmd, "the kernel may lack nf_tables, or nat in it")
}

// ip runs commands of `ip` in a namespace, one after the other, until one fails.
func ip(ctx context.Context, s lab.Space, commands ...string) error {
	cmd := exec.CommandContext(ctx, "ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	return runIn(s, cmd, "the kernel may lack veth devices")
}

// runIn runs a command to its end; hint names the likely reason if it fails.
func runIn(s lab.Space, cmd *exec.Cmd, hint string) error {
	name := strings.Join(cmd.Args, " ")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := s.Place(cmd); err != nil {
		return err
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s in %s: %w: %s (%s)", name, s, err, strings.TrimSpace(stderr.String()), hint)
	}
	return nil
}

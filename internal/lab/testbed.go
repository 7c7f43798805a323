package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
)

// A Testbed is where the processes of a swarm run, each at a site: Loopback, a Lab, Wires, or the
// Internet.
type Testbed interface {
	// Addr is the address under which a site's programs listen.
	Addr(site int) netip.Addr
	// Place makes cmd, which has not been started, run at a site.
	Place(site int, cmd *exec.Cmd) error
	// Close takes the testbed down. The processes on it must have ended.
	Close() error
}

// Loopback is a Testbed without namespaces: all sites are this machine.
type Loopback struct{}

// Addr is the same for all sites.
func (Loopback) Addr(int) netip.Addr { return netip.MustParseAddr("127.0.0.1") }

// Place leaves the command as it is.
func (Loopback) Place(int, *exec.Cmd) error { return nil }

// Close has nothing to do.
func (Loopback) Close() error { return nil }

// Listen returns the multiaddrs that a node at a site listens on, one of each transport, which are
// tcp and quic.
func Listen(t Testbed, site int, transports ...string) (all []string) {
	forms := map[string]string{"tcp": "/ip4/%v/tcp/0", "quic": "/ip4/%v/udp/0/quic-v1"}
	for _, name := range transports {
		all = append(all, fmt.Sprintf(forms[name], t.Addr(site)))
	}
	return all
}

// Command prepares a program to run at a site. If that is impossible, starting the command fails.
func Command(t Testbed, site int, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Err = errors.Join(cmd.Err, t.Place(site, cmd))
	return cmd
}

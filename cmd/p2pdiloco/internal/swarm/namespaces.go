package swarm

import (
	"errors"
	"fmt"
	"os/exec"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// Namespaces is a lab as a place for this program's commands, a namespace each.
type Namespaces struct{ *lab.Lab }

// Listen are the flags that make a process of a site listen where the others reach it.
func (n Namespaces) Listen(site int) []string {
	ip := n.Addr(site)
	return []string{"--listen", fmt.Sprintf("/ip4/%v/tcp/0", ip), "--listen", fmt.Sprintf("/ip4/%v/udp/0/quic-v1", ip)}
}

// Command prepares a process of a site.
func (n Namespaces) Command(site int, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	if err := n.Place(site, cmd); err != nil {
		cmd.Err = errors.Join(cmd.Err, err)
	}
	return cmd
}

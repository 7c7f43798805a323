package lab

import (
	"errors"
	"fmt"
	"os/exec"
)

// Listen are the flags that make a node of p2pdiloco listen where the other nodes reach it.
func (l *Lab) Listen(i int) []string {
	ip := l.Addr(i)
	return []string{"--listen", fmt.Sprintf("/ip4/%v/tcp/0", ip), "--listen", fmt.Sprintf("/ip4/%v/udp/0/quic-v1", ip)}
}

// Command prepares a program to run on node i. If that is impossible, starting the command fails.
func (l *Lab) Command(i int, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	if err := l.Place(i, cmd); err != nil {
		cmd.Err = errors.Join(cmd.Err, err)
	}
	return cmd
}

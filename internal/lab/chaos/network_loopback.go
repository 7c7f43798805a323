package chaos

import (
	"errors"
	"os/exec"

	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// loopback is the network of a swarm that shares this machine's: its links are nobody's to change.
type loopback struct{}

var errLinks = errors.New("chaos: the links of a swarm on loopback cannot be changed")

func (loopback) listen(int) []string { return swarm.Loopback }

func (loopback) command(_ int, program string, args ...string) *exec.Cmd {
	return exec.Command(program, args...)
}

func (loopback) cut(int) error         { return errLinks }
func (loopback) partition([]int) error { return errLinks }
func (loopback) heal(int) error        { return errLinks }
func (loopback) healAll() error        { return errLinks }
func (loopback) slow(int, bool) error  { return errLinks }
func (loopback) Close() error          { return nil }

package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	bootTimeout = 30 * time.Second
	bootPoll    = 50 * time.Millisecond
)

// bootstrapFile holds the bootstrap node's addresses, in a swarm's folder.
const bootstrapFile = "bootstrap.addr"

// Used says whether a swarm ran in dir before. Its peers' data would be of another run.
func Used(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, bootstrapFile))
	return err == nil
}

// Boot is a bootstrap node.
type Boot struct {
	*Process
	Addrs []string // its multiaddrs
}

// StartBoot starts a bootstrap node at a site, with its output in dir, and waits for its addresses.
// After an error the process may run; the result has it then.
func (s *Swarm) StartBoot(ctx context.Context, site int, dir string, args ...string) (b Boot, err error) {
	file := filepath.Join(dir, bootstrapFile)
	if err := os.RemoveAll(file); err != nil {
		return b, err
	}
	cmd := s.Command(site, append([]string{"bootstrap", "--addr-file", file}, args...)...)
	if b.Process, err = s.Start(cmd, dir, "bootstrap"); err != nil {
		return b, err
	}
	late := time.After(bootTimeout)
	for len(b.Addrs) == 0 {
		select {
		case <-time.After(bootPoll):
			text, _ := os.ReadFile(file) // there is none yet
			b.Addrs = strings.Fields(string(text))
		case <-b.Ended:
			return b, fmt.Errorf("the bootstrap node ended at once:\n%s", Tail(b.Log))
		case <-late:
			return b, errors.New("the bootstrap node did not start in time")
		case <-ctx.Done():
			return b, context.Cause(ctx)
		}
	}
	return b, nil
}

// RunName is a name for a run that nobody else on the network will have.
func RunName(prefix string) string { return fmt.Sprintf("%s-%08x", prefix, rand.Uint32()) }

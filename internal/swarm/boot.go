package swarm

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	bootTimeout = 30 * time.Second
	bootPoll    = 50 * time.Millisecond
)

// BootstrapFile is the name of the file that holds the bootstrap node's addresses, in a swarm's
// folder.
const BootstrapFile = "bootstrap.addr"

// Used says whether a swarm ran in dir before. Its peers' data would be of another run.
func Used(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, BootstrapFile))
	return err == nil
}

// Boot is a bootstrap node.
type Boot struct {
	*Process
	Addrs []string // its multiaddrs
}

// StartBoot starts this program's bootstrap node with args, by start, and waits for its addresses.
// After an error the process may run; the result has it then.
func StartBoot(ctx context.Context, dir string, start func(name string, args ...string) (*Process, error),
	args ...string,
) (b Boot, err error) {
	file := filepath.Join(dir, BootstrapFile)
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return b, err
	}
	if b.Process, err = start("bootstrap", append([]string{"bootstrap", "--addr-file", file}, args...)...); err != nil {
		return b, err
	}
	b.Addrs, err = b.await(ctx, file)
	return b, err
}

func (b Boot) await(ctx context.Context, file string) ([]string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, bootTimeout, errors.New("the bootstrap node did not start in time"))
	defer cancel()
	tick := time.NewTicker(bootPoll)
	defer tick.Stop()
	for {
		if text, err := os.ReadFile(file); err == nil {
			return strings.Fields(string(text)), nil
		}
		select {
		case <-tick.C:
		case <-b.Ended:
			return nil, fmt.Errorf("the bootstrap node ended at once:\n%s", Tail(b.Log))
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// RunName is a name for a run that nobody else on the network will have.
func RunName(prefix string) string {
	b := make([]byte, 4)
	_, _ = rand.Read(b) // crypto/rand documents that it never fails
	return prefix + "-" + hex.EncodeToString(b)
}

const (
	tailBytes = 4 << 10
	tailLines = 12
)

// Tail is the end of a log, indented.
func Tail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	b = b[max(0, len(b)-tailBytes):]
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return "    " + strings.Join(lines[max(0, len(lines)-tailLines):], "\n    ")
}

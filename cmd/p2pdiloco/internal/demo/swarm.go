package demo

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	bootstrapTimeout = 30 * time.Second
	poll             = 50 * time.Millisecond
)

// bootstrapFile holds the bootstrap node's addresses, in the demo's folder.
const bootstrapFile = "bootstrap.addr"

// Used says whether a demo ran in dir before: its peers would be found there, and be of another run.
func Used(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, bootstrapFile))
	return err == nil
}

// loopback is where every process listens: any free port, TCP and QUIC.
var loopback = []string{"--listen", "/ip4/127.0.0.1/tcp/0", "--listen", "/ip4/127.0.0.1/udp/0/quic-v1"}

// swarm is the processes of one demo.
type swarm struct {
	cfg      Config
	run      string // name
	launcher *launcher
	boot     *process
	peers    []*peer
}

// startSwarm starts the bootstrap node, waits for its address and starts the peers. After an error stop must be called too.
func startSwarm(ctx context.Context, cfg Config) (*swarm, error) {
	s := &swarm{cfg: cfg, run: "demo-" + randomHex(4), launcher: newLauncher()}
	addrFile := filepath.Join(cfg.Dir, bootstrapFile)
	var err error
	s.boot, err = s.launcher.start(cfg.Executable, cfg.Dir, "bootstrap", append([]string{"bootstrap", "--addr-file", addrFile}, loopback...)...)
	if err != nil {
		return s, err
	}
	addrs, err := s.bootstrapAddrs(ctx, addrFile)
	if err != nil {
		return s, err
	}
	for i := range cfg.Peers {
		p, err := s.startPeer(i+1, addrs)
		if err != nil {
			return s, err
		}
		s.peers = append(s.peers, p)
	}
	return s, nil
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails: crypto/rand says so
	return hex.EncodeToString(b)
}

func (s *swarm) bootstrapAddrs(ctx context.Context, file string) ([]string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, bootstrapTimeout, errors.New("the bootstrap node did not start in time"))
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		if b, err := os.ReadFile(file); err == nil {
			return strings.Fields(string(b)), nil
		}
		select {
		case <-tick.C:
		case <-s.boot.ended:
			return nil, fmt.Errorf("the bootstrap node ended at once:\n%s", tail(s.boot.log))
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// startPeer starts peer n (from 1). All it learns of the others is the bootstrap node's addresses.
func (s *swarm) startPeer(n int, bootstrap []string) (*peer, error) {
	name := fmt.Sprintf("peer-%d", n)
	p := newPeer(n, filepath.Join(s.cfg.Dir, name+".events"))
	args := append([]string{"join", "--json", "--log-level", "info", "--events", p.events, "--data-dir", filepath.Join(s.cfg.Dir, name)}, loopback...)
	for _, a := range bootstrap {
		args = append(args, "--bootstrap", a)
	}
	args = append(args, s.settings()...)
	for _, d := range s.cfg.Data {
		args = append(args, "--data", d)
	}
	var err error
	p.proc, err = s.launcher.start(s.cfg.Executable, s.cfg.Dir, name, args...)
	return p, err
}

// settings are the run's, as flags. So few rounds want an outer step without momentum.
func (s *swarm) settings() []string {
	c := s.cfg
	args := []string{
		"--run", s.run, "--preset", "lan", "--start-peers", strconv.Itoa(c.Peers),
		"--rounds", strconv.FormatUint(c.Rounds, 10), "--inner-steps", strconv.FormatUint(c.InnerSteps, 10),
		"--seed", strconv.FormatUint(c.Seed, 10), "--aggregator", c.Aggregator,
		"--outer", "sgd", "--outer-lr", "1.0", "--momentum", "0",
	}
	if c.Aggregator == "trimmed_mean" {
		args = append(args, "--trim-permille", strconv.Itoa(trimPermille))
	}
	return args
}

// stop ends all processes, and returns when they have.
func (s *swarm) stop(hurry <-chan struct{}) {
	var running []*process
	for _, p := range s.peers {
		running = append(running, p.proc)
	}
	if s.boot != nil {
		running = append(running, s.boot)
	}
	stopAll(running, hurry)
	s.launcher.close()
}

const (
	tailBytes = 4 << 10
	tailLines = 12
)

// tail is the end of a log.
func tail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	b = b[max(0, len(b)-tailBytes):]
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return "    " + strings.Join(lines[max(0, len(lines)-tailLines):], "\n    ")
}

package natbench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/lab/nat"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// bench is one measurement.
type bench struct {
	cfg      Config
	hurry    <-chan struct{}
	screen   *swarm.Screen
	launcher *swarm.Launcher
	world    *nat.World
	sockets  string // folder with a short path
	text     string // to train on
	started  []*swarm.Process
	numbers  int
}

// Run measures. hurry ends the waiting for processes that were asked to stop. An error means that
// there is no result.
func Run(ctx context.Context, cfg Config, hurry <-chan struct{}) (r Result, err error) {
	began := time.Now()
	b := &bench{cfg: cfg, hurry: hurry, screen: swarm.NewScreen(cfg.Out, 0)}
	r = Result{Delay: cfg.Delay.Seconds(), Rate: cfg.Rate, Preset: cfg.Preset, Limit: cfg.Limit.Seconds()}
	if b.sockets, err = os.MkdirTemp("", "p2pdiloco-"); err != nil {
		return r, err
	}
	defer os.RemoveAll(b.sockets) //nolint:errcheck // a folder for sockets
	if err := b.writeText(); err != nil {
		return r, err
	}
	b.launcher = swarm.NewLauncher()
	defer b.launcher.Close()
	if r.Pairs, err = b.pairs(ctx); err != nil {
		return r, err
	}
	if cfg.Size > 0 {
		if r.Four, err = b.four(ctx); err != nil {
			return r, err
		}
	}
	r.WallSeconds = time.Since(began).Seconds()
	r.Print(cfg.Out)
	return r, nil
}

// in makes a world, does something in it and takes it down, after all processes in it.
func (b *bench) in(ctx context.Context, sites []nat.Site, do func() error) (err error) {
	cfg := nat.Config{Sites: sites, Link: b.cfg.link()}
	for i, s := range sites {
		if s.LAN != spareLAN { // no host is there at first
			cfg.Hosts = append(cfg.Hosts, i)
		}
	}
	if b.world, err = nat.New(ctx, cfg); err != nil {
		return err
	}
	defer func() {
		b.stopAll()
		err = errors.Join(err, b.world.Close())
	}()
	return do()
}

// spareLAN marks a site where a host moves to.
const spareLAN = 77

func (b *bench) stopAll() {
	swarm.StopAll(b.started, b.hurry)
	b.started = nil
}

// launch starts this program on a host.
func (b *bench) launch(host int, dir, name string, args ...string) (*swarm.Process, error) {
	cmd := exec.Command(b.cfg.Executable, args...)
	if err := b.world.Place(host, cmd); err != nil {
		return nil, err
	}
	p, err := b.launcher.StartCommand(cmd, dir, name)
	if err == nil {
		b.started = append(b.started, p)
	}
	return p, err
}

func (b *bench) sequence() int {
	b.numbers++
	return b.numbers
}

func (b *bench) note(format string, args ...any) { b.screen.Note(fmt.Sprintf(format, args...)) }

// daemon is a bootstrap node that relays, on a host with a public address.
type daemon struct {
	swarm.Boot
	host int
	dir  string
}

// startDaemon starts a bootstrap node that relays for a run. In the folder of an earlier node it
// has the same identity.
func (b *bench) startDaemon(ctx context.Context, host int, dir, run string) (d *daemon, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	d = &daemon{host: host, dir: dir}
	ip := b.world.Addr(host)
	args := []string{
		"--identity", filepath.Join(dir, "key"), "--log-level", "info",
		"--listen", fmt.Sprintf("/ip4/%v/tcp/4001", ip), "--listen", fmt.Sprintf("/ip4/%v/udp/4001/quic-v1", ip),
		"--relay", "--relay-run", run,
	}
	d.Boot, err = swarm.StartBoot(ctx, dir, func(name string, args ...string) (*swarm.Process, error) {
		return b.launch(host, dir, fmt.Sprintf("%s.%d", name, b.sequence()), args...)
	}, args...)
	return d, err
}

// id is the node's peer ID.
func (d *daemon) id() string {
	if len(d.Addrs) == 0 {
		return ""
	}
	_, id, _ := strings.Cut(d.Addrs[0], "/p2p/")
	return id
}

// writeText makes something to train on.
func (b *bench) writeText() error {
	b.text = filepath.Join(b.cfg.Dir, "text")
	if err := os.MkdirAll(b.text, 0o755); err != nil {
		return err
	}
	text := strings.Repeat("those who cannot reach each other learn together all the same. ", 4<<10)
	return os.WriteFile(filepath.Join(b.text, "text.txt"), []byte(text), 0o644)
}

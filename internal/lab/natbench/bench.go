package natbench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/crew"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/nat"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// bench is one measurement.
type bench struct {
	cfg    Config
	screen *swarm.Screen
	text   string // to train on
	world  *nat.World
	crew   *crew.Crew
}

// Run measures. An error means that there is no result.
func Run(ctx context.Context, cfg Config) (r Result, err error) {
	began := time.Now()
	b := &bench{cfg: cfg, screen: swarm.NewScreen(cfg.Out, 0), text: filepath.Join(cfg.Dir, "text")}
	r = Result{Delay: cfg.Delay.Seconds(), Rate: int64(cfg.Rate), Preset: cfg.Preset, Limit: cfg.Limit.Seconds()}
	if err := crew.WriteText(b.text); err != nil {
		return r, err
	}
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
	// a packet crosses two links
	cfg := nat.Config{Sites: sites, Link: lab.Link{Rate: int64(b.cfg.Rate), Delay: b.cfg.Delay / 2}}
	for i, s := range sites {
		if s.LAN != spareLAN { // no host is there at first
			cfg.Hosts = append(cfg.Hosts, i)
		}
	}
	if b.world, err = nat.New(ctx, cfg); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.world.Close()) }()
	if b.crew, err = crew.New(b.cfg.Setting, b.world); err != nil {
		return err
	}
	defer b.crew.Close()
	return do()
}

// spareLAN marks a site where a host moves to.
const spareLAN = 77

func (b *bench) note(format string, args ...any) { b.screen.Note(fmt.Sprintf(format, args...)) }

// relay is a bootstrap node that relays, on a host with a public address.
type relay struct {
	swarm.Boot
	host int
	dir  string
}

// startRelay starts a bootstrap node that relays for a run. In the folder of an earlier node it has
// the same identity.
func (b *bench) startRelay(ctx context.Context, host int, dir, run string) (r *relay, err error) {
	r = &relay{host: host, dir: dir}
	ip := b.world.Addr(host)
	r.Boot, err = b.crew.StartBoot(ctx, host, dir,
		"--identity", filepath.Join(dir, "key"), "--log-level", "info",
		"--listen", fmt.Sprintf("/ip4/%v/tcp/4001", ip), "--listen", fmt.Sprintf("/ip4/%v/udp/4001/quic-v1", ip),
		"--relay", "--relay-run", run)
	return r, err
}

// is says whether the node has a peer ID.
func (r *relay) is(id string) bool {
	return id != "" && len(r.Addrs) > 0 && strings.HasSuffix(r.Addrs[0], "/p2p/"+id)
}

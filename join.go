package p2pdiloco

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/node/datadir"
	"github.com/p2pdiloco/p2pdiloco/internal/node/edge"
	"github.com/p2pdiloco/p2pdiloco/internal/node/formation"
	"github.com/p2pdiloco/p2pdiloco/internal/node/replica"
	"github.com/p2pdiloco/p2pdiloco/internal/node/round"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// Join takes part in the run that cfg.Spec names. It starts the network, finds the run through its
// peers, or settles its spec here if nobody knows it, and starts the ledger and everything under
// it. It returns once the spec is settled: the node then joins in the background, and Run, Anchor
// and Sync wait for that. ctx bounds Join alone.
func Join(ctx context.Context, cfg Config) (_ *Node, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if cfg.InitFile != "" {
		if cfg.Spec, err = fixInitial(cfg.Spec, cfg.InitFile); err != nil {
			return nil, err
		}
	}
	from, err := openData(ctx, cfg, edge.HooksFrom(ctx))
	if err != nil {
		return nil, err
	}
	n := &Node{
		origin: from, life: round.NewLife(from.cfg.Logger),
		events: &eventSink{log: from.cfg.Logger, on: from.cfg.OnEvent},
	}
	n.shut, n.api = sync.OnceValue(n.close), sync.OnceValue(n.newAPI)
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
		}
	}()
	if err := n.openNetwork(ctx); err != nil {
		return nil, err
	}
	if err := n.closeGate(); err != nil {
		return nil, err
	}
	n.emit("peer.started", map[string]any{"pid": os.Getpid(), "peer_id": n.Self(), "addrs": n.Addrs()})
	if err := n.enter(ctx); err != nil {
		return nil, err
	}
	return n, nil
}

// enter settles the run's spec and opens what needs it. A fault that ends the node ends it, too.
func (n *Node) enter(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(n.life.Context(), cancel)()
	err := n.settle(ctx)
	if err == nil {
		err = n.open()
	}
	if n.life.Failed() {
		return n.life.Err(err)
	}
	return err
}

// openData opens the data directory, and compares what is given with what it knows.
func openData(ctx context.Context, cfg Config, hooks edge.Hooks) (o origin, err error) {
	o = origin{cfg: cfg, hooks: hooks}
	if o.dir, err = datadir.OpenOrLent(ctx, hooks.Disk, cfg.DataDir); err == nil {
		err = o.load()
	}
	if err != nil {
		return o, errors.Join(err, o.dir.Close())
	}
	return o, nil
}

// load reads what the data directory knows of the run.
func (o *origin) load() (err error) {
	o.newcomer = o.cfg.Network == nil && !o.dir.Has(datadir.IdentityFile)
	if o.known, err = o.dir.LoadSpec(o.cfg.Spec); err != nil {
		return err
	}
	if o.cfg.Preset == "" {
		if o.cfg.Preset, err = o.dir.LoadPreset(PresetLAN, PresetWAN); err != nil {
			return err
		}
	}
	o.first = o.hooks.Preset(o.cfg.preset())
	if err := o.fitTicket(); err != nil {
		return err
	}
	return o.findCredentials()
}

// openNetwork starts the network, unless one was given.
func (n *Node) openNetwork(ctx context.Context) (err error) {
	if n.net = n.cfg.Network; n.net != nil {
		return nil
	}
	if err := n.dir.CheckIdentity(); err != nil {
		return err
	}
	n.net, err = p2p.New(ctx, networkOf(n.cfg, n.dir))
	return err
}

// networkOf has the settings of the network of a peer, which remembers what it knows in dir.
func networkOf(c Config, dir datadir.Dir) p2p.Config {
	cfg := p2p.WAN()
	if c.Preset == PresetLAN {
		cfg = p2p.LAN()
	}
	cfg.IdentityFile, cfg.PeersFile = dir.Path(datadir.IdentityFile), dir.Path(datadir.PeersFile)
	cfg.PortsFile = dir.Path(datadir.PortsFile)
	cfg.Listen, cfg.Bootstrap = c.Listen, c.Bootstrap
	// A member that comes back looks everywhere. A newcomer with a mistyped address must not found.
	cfg.MDNS = len(c.Bootstrap) == 0 || dir.Has(datadir.LedgerFile)
	cfg.Logger, cfg.MaxUpload, cfg.MaxDownload = c.Logger, c.MaxUpload, c.MaxDownload
	cfg.Announce, cfg.PortMap = c.Announce, !c.NoPortMap && c.Preset != PresetLAN
	if !c.NoRelaying {
		cfg.Relay = p2p.MemberRelay()
	}
	return cfg
}

// settle says hello to the run's peers until it is known which spec holds. A restarted peer knows
// it from its data directory.
func (n *Node) settle(ctx context.Context) (err error) {
	if n.cfg.ticket != nil {
		if err := n.net.AddBootstrap(n.cfg.ticket.Addrs); err != nil {
			return err
		}
	}
	n.formation = formation.New(n.formationConfig())
	if err := n.checkAccess(n.known); err != nil {
		return err
	}
	if n.known != nil {
		n.formation.Adopt(*n.known)
	} else {
		n.emit("run.searching", map[string]any{
			"run":    n.cfg.Spec.Name,
			"detail": n.searching(),
		})
		looks, found := context.WithCancel(ctx)
		defer found()
		n.life.Go(func() { n.tellSearching(looks) })
	}
	n.life.Go(func() { n.formation.Serve(n.life.Context()) })
	n.net.Advertise(n.life.Context(), n.places())
	if n.spec, err = n.formation.Await(ctx); err != nil {
		if _, ok := errors.AsType[formation.Several](err); ok {
			err = fmt.Errorf("%w: %w", ErrOtherRun, err)
		}
		return err
	}
	if err := n.awaitAdmission(ctx); err != nil {
		return err
	}
	if err := replica.CheckMemory(n.spec, replica.MachineMemory()); err != nil {
		return err
	}
	replica.LimitGarbage(4*n.spec.Layout.Elements(), replica.LiveMemory(n.spec))
	if err := n.adoptPreset(ctx); err != nil {
		return err
	}
	n.run = n.spec.RunID()
	return nil
}

// adoptPreset goes on with the preset of the run's peers.
func (n *Node) adoptPreset(ctx context.Context) error {
	if err := n.formation.AwaitPreset(ctx); err != nil {
		return err
	}
	n.timing = n.hooks.Preset(n.formation.Preset())
	return nil
}

// mayFound refuses to found what this machine cannot hold.
func (n *Node) mayFound(id Root) error {
	err := replica.CheckMemory(n.cfg.Spec.Settled(), replica.MachineMemory())
	if err == nil && n.cfg.MayFound != nil {
		err = n.cfg.MayFound(id)
	}
	return err
}

// localGlance is how long answers on the local network are waited for: there is no search that
// ends.
const localGlance = 2 * time.Second

// formationConfig is what finding the run goes by.
func (n *Node) formationConfig() formation.Config {
	cfg := formation.Config{
		Network: n.net, Given: n.cfg.Spec, ID: n.cfg.RunID, Found: n.cfg.Found, MayFound: n.mayFound,
		GiveUp: n.giveUp,
		Start:  n.cfg.start(), MaxAdopted: n.cfg.MaxAdopted,
		Places: n.places(), Presets: []string{PresetLAN, PresetWAN}, Preset: n.cfg.Preset,
		Default: n.cfg.preset(), Discovery: n.first.Discovery, Hello: n.first.Hello, Logger: n.cfg.Logger,
	}
	if n.cfg.AtOnce {
		cfg.Discovery = 0
	}
	if n.cfg.Network == nil && len(n.cfg.Bootstrap) == 0 {
		cfg.Glance = localGlance
	}
	if n.guard != nil {
		cfg.Refused, cfg.IsIn, cfg.Barred = n.guard.Refused(), n.guard.IsIn, n.guard.Barred
	}
	return cfg
}

// searchAgain is how often people are told that the run is still looked for.
const searchAgain = 8 * time.Second

// tellSearching says that the run is still looked for, and why no bootstrap address answers, until
// ctx ends.
func (n *Node) tellSearching(ctx context.Context) {
	tick := time.NewTicker(searchAgain)
	defer tick.Stop()
	for began := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		detail := fmt.Sprintf("%s (%v so far)", n.searching(), time.Since(began).Round(time.Second))
		if err := n.net.Bootstrap().Err(); err != nil {
			detail += "; " + cmp.Or(lookUp(ctx, n.cfg.Bootstrap), err).Error()
		}
		n.emit("run.searching", map[string]any{"run": n.cfg.Spec.Name, "detail": detail})
	}
}

// lookUp returns what the resolver says of the names in addresses: dials say only that no address
// is good. It is nil where all are found.
func lookUp(ctx context.Context, addrs []string) error {
	ctx, cancel := context.WithTimeout(ctx, searchAgain/2)
	defer cancel()
	var errs []error
	for _, a := range addrs {
		parts := strings.Split(a, "/")
		if len(parts) > 2 && strings.HasPrefix(parts[1], "dns") && parts[1] != "dnsaddr" {
			_, err := net.DefaultResolver.LookupHost(ctx, parts[2])
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

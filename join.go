package p2pdiloco

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/internal/machine"
	"github.com/p2pdiloco/p2pdiloco/internal/node/admission"
	"github.com/p2pdiloco/p2pdiloco/internal/node/datadir"
	"github.com/p2pdiloco/p2pdiloco/internal/node/formation"
	"github.com/p2pdiloco/p2pdiloco/internal/node/life"
	"github.com/p2pdiloco/p2pdiloco/internal/node/modelfile"
	"github.com/p2pdiloco/p2pdiloco/internal/node/report"
	"github.com/p2pdiloco/p2pdiloco/internal/node/testhooks"
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
		if cfg.Spec, err = modelfile.FixInitial(cfg.Spec, cfg.InitFile); err != nil {
			return nil, err
		}
	}
	n := &Node{
		cfg: cfg, hooks: testhooks.From(ctx), life: life.New(cfg.Logger),
		events: report.NewEvents(cfg.Logger, cfg.OnEvent),
	}
	n.shut = sync.OnceValue(n.close)
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
		}
	}()
	known, credentials, err := n.openData()
	if err != nil {
		return nil, err
	}
	if err := n.openNetwork(ctx); err != nil {
		return nil, err
	}
	if err := n.closeGate(credentials); err != nil {
		return nil, err
	}
	n.emit("peer.started", map[string]any{"pid": os.Getpid(), "peer_id": n.Self(), "addrs": n.Addrs()})
	if err := n.settle(ctx, known); err != nil {
		return nil, err
	}
	if err := n.open(known != nil); err != nil {
		return nil, err
	}
	return n, nil
}

// openData opens the data directory, and compares what is given with what it knows. The run's spec
// is known if this peer was in it before.
func (n *Node) openData() (known *Spec, credentials *admission.Credentials, err error) {
	if n.dir, err = datadir.Open(n.hooks.Disk, n.cfg.DataDir); err != nil {
		return nil, nil, err
	}
	if known, err = n.dir.LoadSpec(n.cfg.Spec); err != nil {
		return nil, nil, err
	}
	if n.cfg.Preset == "" {
		if n.cfg.Preset, err = n.dir.LoadPreset(); err != nil {
			return nil, nil, err
		}
	}
	n.timing = n.hooks.Preset(n.cfg.preset())
	if err := n.fitTicket(known); err != nil {
		return nil, nil, err
	}
	credentials, err = n.findCredentials(known)
	return known, credentials, err
}

// openNetwork starts the network, unless one was given.
func (n *Node) openNetwork(ctx context.Context) (err error) {
	if n.net = n.cfg.Network; n.net != nil {
		return nil
	}
	if n.dir.Has(datadir.LedgerFile) && !n.dir.Has(datadir.IdentityFile) {
		return fmt.Errorf("data directory %s has a ledger.log but no identity: put the identity back, or move the "+
			"directory away to join as a new peer", n.dir.Root)
	}
	cfg := p2p.WAN()
	if n.cfg.Preset == PresetLAN {
		cfg = p2p.LAN()
	}
	cfg.IdentityFile, cfg.PeersFile = n.dir.Path(datadir.IdentityFile), n.dir.Path(datadir.PeersFile)
	cfg.Listen, cfg.Bootstrap, cfg.MDNS = n.cfg.Listen, n.cfg.Bootstrap, len(n.cfg.Bootstrap) == 0
	cfg.Logger, cfg.MaxUpload, cfg.MaxDownload = n.cfg.Logger, n.cfg.MaxUpload, n.cfg.MaxDownload
	cfg.Announce, cfg.PortMap = n.cfg.Announce, !n.cfg.NoPortMap && n.cfg.Preset != PresetLAN
	if !n.cfg.NoRelaying {
		cfg.Relay = p2p.MemberRelay()
	}
	n.net, err = p2p.New(ctx, cfg)
	return err
}

// settle says hello to the run's peers until it is known which spec holds. A restarted peer knows
// it from its data directory.
func (n *Node) settle(ctx context.Context, known *Spec) (err error) {
	if n.cfg.ticket != nil {
		if err := n.net.AddBootstrap(n.cfg.ticket.Addrs); err != nil {
			return err
		}
	}
	n.formation = formation.New(n.formationConfig())
	if err := n.checkAccess(known); err != nil {
		return err
	}
	if known != nil {
		n.formation.Adopt(*known)
	} else {
		n.emit("run.searching", map[string]any{
			"run":    n.cfg.Spec.Name,
			"detail": n.searching(),
		})
	}
	n.life.Go(func() { n.formation.Serve(n.life.Context()) })
	n.net.AdvertiseAt(n.life.Context(), n.places())
	if n.spec, err = n.formation.Await(ctx); err != nil {
		return err
	}
	if err := n.awaitAdmission(ctx); err != nil {
		return err
	}
	if err := machine.Holds(n.spec.Layout.Elements()); err != nil { // adopted
		return err
	}
	if err := n.adoptPreset(ctx); err != nil {
		return err
	}
	n.run = n.spec.RunID()
	return n.dir.SaveSpec(n.spec)
}

// adoptPreset goes on with the preset of the run's peers.
func (n *Node) adoptPreset(ctx context.Context) error {
	if err := n.formation.AwaitPreset(ctx); err != nil {
		return err
	}
	n.timing = n.hooks.Preset(n.formation.Preset())
	return nil
}

// formationConfig is what finding the run goes by.
func (n *Node) formationConfig() formation.Config {
	cfg := formation.Config{
		Network: n.net, Given: n.cfg.Spec, Ticket: n.cfg.ticket, Found: n.cfg.Found, MaxAdopted: n.cfg.MaxAdopted,
		Listed: n.cfg.listed(), Places: n.places(), Presets: []string{PresetLAN, PresetWAN}, Preset: n.cfg.Preset,
		Default: n.cfg.preset(), Discovery: n.timing.Discovery, Hello: n.timing.Hello, Logger: n.cfg.Logger,
	}
	if n.guard != nil {
		cfg.Refused, cfg.IsIn, cfg.Barred = n.guard.Refused(), n.guard.IsIn, n.guard.Barred
	}
	return cfg
}

// searching says what happens while no peer is found that knows the run.
func (n *Node) searching() string {
	window := n.timing.Discovery + n.timing.Ledger.FoundAfter
	if n.cfg.ticket != nil {
		return "looking for the peers that the ticket names, or others of its run; it is not founded here"
	}
	if len(n.cfg.Bootstrap) > 0 && !n.cfg.Found {
		return fmt.Sprintf("looking for peers that know the run; if a bootstrap address answers and there are none, "+
			"it is founded after %v", window)
	}
	return fmt.Sprintf("looking for peers that know the run; if there are none, it is founded after %v", window)
}

package cli

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// relayFlags are the flags of a relay.
type relayFlags struct {
	on, open    bool
	runs, peers []string
	total       sources.Rate
	most        int
}

func (f *relayFlags) register(fs *pflag.FlagSet) {
	fs.BoolVar(&f.on, "relay", false, "relay between peers that cannot connect to each other; others must be able to "+
		"reach this node")
	fs.StringArrayVar(&f.runs, "relay-run", nil, "`name` of a run whose peers are served, may be repeated")
	fs.StringArrayVar(&f.peers, "relay-peer", nil, "`ID` of a peer that is served in any case, may be repeated")
	fs.BoolVar(&f.open, "relay-open", false, "relay for everybody who asks, of whatever run")
	fs.Var(&f.total, "relay-total", "`rate` at which all peers together may send through the relay (default no limit)")
	fs.IntVar(&f.most, "relay-peers", 256, "peers that can be reached through the relay at a time")
}

// config is the configuration that the flags ask for, or an error with all their faults.
func (f *relayFlags) config() (p2p.RelayConfig, error) {
	served := len(f.runs)+len(f.peers) > 0 || f.open
	switch {
	case !f.on && served:
		return p2p.RelayConfig{}, errors.New("--relay-run, --relay-peer and --relay-open say for whom to relay: " +
			"give --relay as well")
	case !f.on:
		return p2p.RelayConfig{}, nil
	}
	var errs sources.Faults
	if !served {
		errs = append(errs, errors.New("--relay does not say for whom: give --relay-run NAME, --relay-peer ID, or "+
			"--relay-open for everybody"))
	}
	errs.Add(f.most < 1, "relay-peers", f.most, "at least 1")
	c := p2p.RelayConfig{
		Serve: true, Runs: f.runs, Peers: f.peers, Open: f.open, Total: int64(f.total) / 8,
		Reservations: f.most,
	}
	return c, errors.Join(errs...)
}

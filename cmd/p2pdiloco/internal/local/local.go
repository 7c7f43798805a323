// Package local finds the peers that run on this machine, and what is needed to give them orders:
// the address of a peer's API, which its data folder holds, and a token that only its user can
// read.
package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/settings"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/api"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/internal/statedir"
)

// Peer is a peer on this machine that answers.
type Peer struct {
	Addr   api.Address
	Dir    string // of its data; empty: not known
	Token  string // for orders; empty: not known
	Status p2pdiloco.Status
}

// Names says whether a value of --api names a peer. The setting of a peer that chooses its port, or
// has no API, names none: in the environment or a config file it is meant for the user's own peers.
func Names(given string) bool {
	return given != "" && given != settings.NoAPI && !strings.HasSuffix(given, ":0")
}

// Peers are the peers that run with a default data folder.
func Peers(ctx context.Context) (all []Peer, err error) {
	base, err := statedir.Base()
	if err != nil {
		return nil, err
	}
	files, err := statedir.APIFiles(base)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it stopped just now
		}
		p := Peer{Dir: filepath.Dir(file)}
		if p.Addr, err = api.ParseAddress(strings.TrimSpace(string(text))); err != nil {
			continue
		}
		if _, err := api.Get(ctx, p.Addr, &p.Status); err == nil {
			all = append(all, p)
		}
	}
	return all, nil
}

// Only is the address, and the data folder, of the one peer that runs with a default folder.
func Only(ctx context.Context) (addr, dir string, err error) {
	all, err := Peers(ctx)
	if err != nil {
		return "", "", err
	}
	switch len(all) {
	case 0:
		base, err := statedir.Base()
		if err != nil {
			return "", "", err
		}
		return "", "", fmt.Errorf("no running peer found under %s: give the address that the peer printed with --api",
			base)
	case 1:
		return all[0].Addr.String(), all[0].Dir, nil
	}
	return "", "", Several("status", all)
}

// Several asks the user of a command to choose one of the peers.
func Several(command string, all []Peer) error {
	var lines []string
	for _, p := range all {
		lines = append(lines, fmt.Sprintf("  p2pdiloco %s --api %s   (run %s)", command, p.Addr, p.Status.Run))
	}
	return errors.New("several peers run here; choose one:\n" + strings.Join(lines, "\n"))
}

// Operator is the flags of a command that gives a peer an order.
type Operator struct{ API, Dir string }

// Register makes the flags.
func (o *Operator) Register(fs *pflag.FlagSet) {
	fs.StringVar(&o.API, "api", "", "`address` of the peer's API, if it is unix:PATH (default: as its data folder says)")
	fs.StringVar(&o.Dir, "data-dir", "",
		"`folder` of the peer's data (default: that of the one running peer with a default folder)")
}

// Peer finds the peer that the flags name, or else the only one, and the token that it asks for
// before it takes an order.
func (o Operator) Peer(ctx context.Context) (addr api.Address, token string, err error) {
	if o.Dir == "" && !Names(o.API) {
		if o.API, o.Dir, err = Only(ctx); err != nil {
			return addr, "", err
		}
	}
	if o.Dir != "" {
		text, err := os.ReadFile(filepath.Join(o.Dir, statedir.APIFile))
		if err != nil {
			return addr, "", fmt.Errorf("no peer runs with its data in %s: %w", o.Dir, err)
		}
		o.API = strings.TrimSpace(string(text))
		if token, err = ReadToken(o.Dir); err != nil {
			return addr, "", fmt.Errorf("the peer's token cannot be read: %w: only the user whose peer it is can "+
				"give it orders; run this command as that user", err)
		}
	}
	addr, err = Address(o.API)
	return addr, token, err
}

// Address reads a value of --api.
func Address(given string) (api.Address, error) {
	addr, err := api.ParseAddress(given)
	if err != nil {
		return addr, cli.UsageError(sources.Faultf("api", given, "%v", err))
	}
	return addr, nil
}

// ReadToken is the token of the peer with its data in dir.
func ReadToken(dir string) (string, error) {
	b, err := os.ReadFile(filepath.Join(dir, statedir.TokenFile))
	return strings.TrimSpace(string(b)), err
}

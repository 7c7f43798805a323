package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/peer"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/api"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/node/datadir"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// localPeer is a peer on this machine that runs.
type localPeer struct {
	api.Client        // its Token, for orders, is empty where it is not known
	Dir        string // of its data; empty: not known
	Status     p2pdiloco.Status
	Mute       error // why it gives no status: it is starting, or does not answer; nil: it does
}

// namesPeer says whether a value of --api names a peer. The setting of a peer that chooses its
// port, or has no API, names none: in the environment or a config file it is meant for the user's
// own peers.
func namesPeer(given string) bool {
	return given != "" && given != peer.NoAPI && !strings.HasSuffix(given, ":0")
}

// localPeers are the peers that run on this machine, those that give no status included:
// who does not see them starts another one on the same GPUs. All are asked at once, because one
// that hangs takes its time.
func localPeers(ctx context.Context) (all []localPeer, err error) {
	found, err := startedPeers()
	var asking sync.WaitGroup
	for i := range found {
		p := &found[i]
		asking.Go(func() { _, p.Mute = p.Get(ctx, &p.Status) })
	}
	asking.Wait()
	return slices.DeleteFunc(found, func(p localPeer) bool { return p.Mute != nil && !api.Runs(p.Mute) }), err
}

// startedPeers are the peers on this machine that did not end in good order, without their
// status: they run, or were killed.
func startedPeers() (all []localPeer, err error) {
	dirs, err := localDirs()
	for _, dir := range dirs {
		if p, err := openPeer(dir); err == nil {
			all = append(all, p)
		}
	}
	return all, err
}

// openPeer reads where the peer with its data in dir is asked, and with which token.
func openPeer(dir string) (p localPeer, err error) {
	text, err := os.ReadFile(filepath.Join(dir, peer.APIFile))
	if err != nil {
		return p, notRunning(dir, err)
	}
	p.Dir = dir
	if p.Addr, err = api.ParseAddress(strings.TrimSpace(string(text))); err != nil {
		return p, err
	}
	// without it the peer refuses, and says so
	token, _ := os.ReadFile(filepath.Join(dir, peer.TokenFile))
	p.Token = strings.TrimSpace(string(token))
	return p, nil
}

// localDirs are the data directories of this machine.
func localDirs() ([]string, error) {
	base, err := peer.BaseDir()
	if err != nil {
		return nil, err
	}
	return peer.Dirs(base)
}

// errNone is wrapped by what Only returns where no peer runs.
var errNone = errors.New("no peer of this user runs here: start one (p2pdiloco start NAME), or name its directory " +
	"with --data-dir")

// onlyPeer is the one peer that runs on this machine, and gives a status.
func onlyPeer(ctx context.Context) (localPeer, error) {
	p, err := onePeer(ctx)
	return p, errors.Join(err, p.Told())
}

// Told is an error if the peer gives no status.
func (p localPeer) Told() error {
	if p.Mute == nil {
		return nil
	}
	return fmt.Errorf("the peer with the data directory %s gives no status: %w", p.Dir, p.Mute)
}

// onlyDir is the data directory of the one peer that runs on this machine, or else of the only one
// that was in a run.
func onlyDir(ctx context.Context) (string, error) {
	only, err := onePeer(ctx)
	if !errors.Is(err, errNone) {
		return only.Dir, err
	}
	all, err := localDirs()
	all = slices.DeleteFunc(all, func(dir string) bool {
		known, err := datadir.At(disk.OS, dir).LoadSpec(p2pdiloco.Spec{})
		return err != nil || known == nil
	})
	switch {
	case err != nil:
		return "", err
	case len(all) == 0:
		return "", errors.New("no peer of this user has been in a run here: name a data directory with --data-dir DIR")
	case len(all) > 1:
		return "", errors.New("no peer runs here, and several have been in a run; choose one:\n  --data-dir " +
			strings.Join(all, "\n  --data-dir "))
	}
	return all[0], nil
}

// onePeer is the one peer that runs on this machine. It may give no status.
func onePeer(ctx context.Context) (localPeer, error) {
	all, err := localPeers(ctx)
	if err != nil {
		return localPeer{}, err
	}
	switch len(all) {
	case 0:
		base, err := peer.BaseDir()
		if err != nil {
			return localPeer{}, err
		}
		return localPeer{}, fmt.Errorf("%w (under %s)", errNone, base)
	case 1:
		return all[0], nil
	}
	return localPeer{}, severalPeers(all)
}

// errSeveral is wrapped by what Several returns.
var errSeveral = errors.New("several peers run here; choose one")

// severalPeers asks the user of a command to choose one of the peers.
func severalPeers(all []localPeer) error {
	var lines []string
	for _, p := range all {
		state := "run " + p.Status.Run
		if p.Mute != nil {
			state = p.Mute.Error()
		}
		lines = append(lines, fmt.Sprintf("  --data-dir %s   (%s)", cli.Quote(p.Dir), state))
	}
	return fmt.Errorf("%w:\n%s", errSeveral, strings.Join(lines, "\n"))
}

// operator is the flags of a command that asks a peer, or gives it an order.
type operator struct{ API, Dir string }

// Register makes the flags.
func (o *operator) Register(fs *pflag.FlagSet) {
	fs.StringVar(
		&o.API,
		"api",
		"",
		"`address` of the peer's API: unix:PATH, or HOST:PORT (default: as its data directory says)",
	)
	fs.StringVar(&o.Dir, "data-dir", "",
		"`directory` with the peer's data (default: that of the one peer that runs here)")
}

// find finds the peer that the flags name, or else the only one.
func (o operator) find(ctx context.Context) (p localPeer, err error) {
	switch {
	case o.Dir != "":
		if err := otherVersion(o.Dir); err != nil {
			return p, err
		}
		return openPeer(o.Dir)
	case !namesPeer(o.API):
		return onlyPeer(ctx)
	}
	if p.Addr, err = api.ParseAddress(o.API); err != nil {
		return p, cli.UsageError(sources.Faultf("api", o.API, "%v", err))
	}
	all, err := startedPeers()
	for _, started := range all {
		if started.Addr == p.Addr {
			p = started
		}
	}
	return p, err
}

// ask finds the peer and takes its status.
func (o operator) ask(ctx context.Context) (localPeer, error) {
	p, err := o.find(ctx)
	if err != nil {
		return p, err
	}
	var now p2pdiloco.Status
	_, err = p.Get(ctx, &now)
	p.Status = now
	return p, err
}

// otherVersion refuses a data directory of another protocol version, and says what can finish its
// run.
func otherVersion(dir string) error {
	_, err := datadir.At(disk.OS, dir).LoadSpec(p2pdiloco.Spec{})
	if _, is := errors.AsType[*wire.VersionError](err); !is {
		return nil // what else is wrong there, others say
	}
	return err
}

// notRunning says why the file with the address of a peer's API cannot be read.
func notRunning(dir string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the address of the peer's API cannot be read: %w", err)
	}
	return fmt.Errorf("no peer runs with the data directory %s: start it as before (p2pdiloco join --data-dir %s), or "+
		"name the directory that join printed", dir, cli.Quote(dir))
}

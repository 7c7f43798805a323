package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/settings"
	"github.com/p2pdiloco/p2pdiloco/internal/api"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/internal/statedir"
)

func newStatus() *cobra.Command {
	var addr string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what a peer on this machine knows of its run",
		Long: `Show what a peer on this machine knows of its run: who the members are, who is late or missing,
the state root, the bytes moved, and how many bad peers the run tolerates. A peer prints where
its API listens when it starts; without --api the one running peer with a default data folder is asked.`,
		Example: `  p2pdiloco status
  p2pdiloco status --api 127.0.0.1:41234 --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return showStatus(cmd.Context(), cmd.OutOrStdout(), addr, asJSON)
		},
	}
	cmd.Flags().StringVar(&addr, "api", "", "`address` of the peer's API: a loopback HOST:PORT or unix:PATH")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the peer's JSON document")
	return cmd
}

func showStatus(ctx context.Context, out io.Writer, given string, asJSON bool) error {
	if !names(given) {
		found, _, err := findAPI(ctx)
		if err != nil {
			return err
		}
		given = found
	}
	addr, err := api.ParseAddress(given)
	if err != nil {
		return usageError(&sources.Fault{Flag: "api", Value: given, Why: err.Error()})
	}
	var s p2pdiloco.Status
	raw, err := api.Get(ctx, addr, &s)
	if err != nil {
		return err
	}
	if asJSON {
		_, err = out.Write(append(bytes.TrimSpace(raw), '\n'))
		return err
	}
	return printStatus(out, s)
}

// names says whether a value of --api names a peer. The setting of a peer that chooses its port, or has no API, names none: who has it in
// the environment or a config file means no other one here.
func names(given string) bool {
	return given != "" && given != settings.NoAPI && !strings.HasSuffix(given, ":0")
}

// runningPeer is a peer on this machine that answers.
type runningPeer struct {
	addr   api.Address
	dir    string // of its data; empty: not known
	token  string // for orders; empty: not known
	status p2pdiloco.Status
}

// runningPeers are the peers that run with a default data directory.
func runningPeers(ctx context.Context) (all []runningPeer, err error) {
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
		p := runningPeer{dir: filepath.Dir(file)}
		if p.addr, err = api.ParseAddress(strings.TrimSpace(string(text))); err != nil {
			continue
		}
		if _, err := api.Get(ctx, p.addr, &p.status); err == nil {
			all = append(all, p)
		}
	}
	return all, nil
}

// findAPI is the address, and the data directory, of the only peer that runs with a default one.
func findAPI(ctx context.Context) (addr, dir string, err error) {
	all, err := runningPeers(ctx)
	if err != nil {
		return "", "", err
	}
	switch len(all) {
	case 0:
		base, err := statedir.Base()
		if err != nil {
			return "", "", err
		}
		return "", "", fmt.Errorf("no running peer found under %s: give the address that the peer printed with --api", base)
	case 1:
		return all[0].addr.String(), all[0].dir, nil
	}
	return "", "", severalPeers("status", all)
}

// severalPeers has the user of a command choose.
func severalPeers(command string, all []runningPeer) error {
	var lines []string
	for _, p := range all {
		lines = append(lines, fmt.Sprintf("  p2pdiloco %s --api %s   (run %s)", command, p.addr, p.status.Run))
	}
	return errors.New("several peers run here; choose one:\n" + strings.Join(lines, "\n"))
}

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

// findAPI is the address, and the data directory, of the only peer that runs with a default one.
func findAPI(ctx context.Context) (addr, dir string, err error) {
	base, err := statedir.Base()
	if err != nil {
		return "", "", err
	}
	files, err := statedir.APIFiles(base)
	if err != nil {
		return "", "", err
	}
	var running, lines []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it stopped just now
		}
		addr, err := api.ParseAddress(strings.TrimSpace(string(text)))
		if err != nil {
			continue
		}
		var s p2pdiloco.Status
		if _, err := api.Get(ctx, addr, &s); err == nil {
			running, dir = append(running, addr.String()), filepath.Dir(file)
			lines = append(lines, fmt.Sprintf("  p2pdiloco status --api %s   (run %s)", addr, s.Run))
		}
	}
	switch len(running) {
	case 0:
		return "", "", fmt.Errorf("no running peer found under %s: give the address that the peer printed with --api", base)
	case 1:
		return running[0], dir, nil
	}
	return "", "", errors.New("several peers run here; choose one:\n" + strings.Join(lines, "\n"))
}

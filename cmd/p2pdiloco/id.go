package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/node/datadir"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

func newID() *cobra.Command {
	var dir string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "id",
		Short: "Print the ID of a peer on this machine",
		Long: `Print the ID of a peer on this machine, which others need for join --follow, remove and
readmit. The peer need not run: --data-dir names its data directory. If there is no identity in that folder,
this command makes one, as join would, and says so.`,
		Example: `  p2pdiloco id
  p2pdiloco id --data-dir ~/run1 --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return showID(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), dir, asJSON)
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", "",
		"`directory` with the peer's data (default: that of the one peer that runs here)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON document with peer_id, data_dir and made")
	return cmd
}

// identity is the document that id prints.
type identity struct {
	Peer slot.PeerID `json:"peer_id"`
	Dir  string      `json:"data_dir"`
	Made bool        `json:"made"` // just now
}

func showID(ctx context.Context, stdout, stderr io.Writer, dir string, asJSON bool) (err error) {
	if dir == "" {
		if dir, err = onlyDir(ctx); err != nil {
			return fmt.Errorf("give --data-dir, the one that join will use, where it is new: %w", err)
		}
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	found := identity{Dir: dir}
	if found.Peer, found.Made, err = datadir.Identity(disk.OS, dir); err != nil {
		return err
	}
	if found.Made {
		fmt.Fprintf(stderr, "made an identity in %s: a peer that joins with --data-dir %s has this ID\n", dir,
			cli.Quote(dir))
	}
	if asJSON {
		return json.NewEncoder(stdout).Encode(found)
	}
	_, err = fmt.Fprintln(stdout, found.Peer)
	return err
}

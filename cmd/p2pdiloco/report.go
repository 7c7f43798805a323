package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/node/datadir"
	"github.com/p2pdiloco/p2pdiloco/internal/view/document"
)

func newReport() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "report [DATA-DIR | FILE]... --out FILE",
		Short: "Write a report of a run from what its peers have measured",
		Long: `Write a report of a run: loss, speed, time, members, bytes and norms by slot, as a peer has measured them
and keeps them in metrics.jsonl in its data directory. Several peers are shown beside each other. The end
of the name says what is written: .html is a page that needs nothing else, .svg the picture of the loss,
.csv a row for each slot, .tex a LaTeX table of the summary. The peers may be running.`,
		Example: `  p2pdiloco report --out run.html
  p2pdiloco report ~/run1 laptop/metrics.jsonl --out run.csv`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return writeReport(cmd, args, out)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "`file` to write, of which the end of the name is one of "+
		strings.Join(document.Endings(), ", ")+"; a file that exists is replaced")
	return cmd
}

func writeReport(cmd *cobra.Command, from []string, out string) error {
	if out == "" {
		return cli.UsageError(errors.New("no file is named: give --out REPORT.html"))
	}
	ctx, stop := cli.OrExit(cmd.Context())
	defer stop()
	peers, err := measured(ctx, from)
	if err != nil {
		return err
	}
	if err := writeDocument(out, peers); err != nil {
		return err
	}
	slots := 0
	for _, p := range peers {
		slots += len(p.Slots)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d slots, as %d of the run's peers measured them\n", out, slots,
		len(peers))
	return err
}

// measured reads what peers have measured: those of some data directories or files, or else the one
// of this machine.
func measured(ctx context.Context, from []string) (peers []document.Peer, err error) {
	if len(from) == 0 {
		dir, err := onlyDir(ctx)
		if err != nil {
			return nil, err
		}
		from = []string{dir}
	}
	for _, path := range from {
		p, err := readPeer(path)
		if err != nil {
			return nil, err
		}
		if len(p.Slots) == 0 {
			return nil, fmt.Errorf("%s: no slot has been measured there: give the data directory of a peer that has "+
				"been in a run, or its %s", path, datadir.MetricsFile)
		}
		peers = append(peers, p)
	}
	return peers, nil
}

// readPeer reads what the peer of a data directory, or of a file, has measured.
func readPeer(path string) (p document.Peer, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return p, err
	}
	p.Name = filepath.Base(filepath.Clean(path))
	if info.IsDir() {
		path = filepath.Join(path, datadir.MetricsFile)
	} else if p.Name == datadir.MetricsFile {
		p.Name = filepath.Base(filepath.Dir(path))
	}
	p.Slots, err = eventlog.ReadHistory[p2pdiloco.SlotMetrics](path)
	return p, err
}

// writeDocument writes a document of what peers have measured, of the kind that the end of the
// file's name asks for.
func writeDocument(file string, peers []document.Peer) error {
	var b bytes.Buffer
	if err := document.Write(&b, file, peers); err != nil {
		return cli.UsageError(err)
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}

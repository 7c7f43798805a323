package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/p2pdiloco/internal/local"
	"github.com/p2pdiloco/p2pdiloco/internal/api"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/internal/view"
	"github.com/p2pdiloco/p2pdiloco/internal/view/page"
)

// pageAddr is where the page is unless another address is given: the same each time, so that a
// bookmark and a tunnel to it go on working.
const pageAddr = "127.0.0.1:8412"

func newDashboard() *cobra.Command {
	var operator local.Operator
	var addr string
	cmd := &cobra.Command{
		Use:   "dashboard",
		Short: "Show the whole run on a web page, and steer it",
		Long: `Show the run of a peer on this machine on a web page: what is waited for, the loss, the members and how
each is reached, the bytes, the agreement, and what happened. The page is for this machine alone, and is
served until Ctrl-C; the peer goes on without it. What stands behind the # of the address it prints is a
key: with it one may run the doctor and remove members, and in a private run it takes the key to look.

To look from another machine, make a tunnel there, and open the same address:
  ssh -L 8412:127.0.0.1:8412 THIS-MACHINE`,
		Example: `  p2pdiloco dashboard
  p2pdiloco dashboard --data-dir ~/run1 --addr 127.0.0.1:0`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return showPage(cmd.Context(), cmd.OutOrStdout(), operator, addr)
		},
	}
	operator.Register(cmd.Flags())
	cmd.Flags().StringVar(&addr, "addr", "", "`address` of the page, HOST:PORT on this machine; with port 0 any free "+
		"port (default "+pageAddr+", or a free port where that is taken)")
	return cmd
}

func showPage(ctx context.Context, out io.Writer, operator local.Operator, addr string) error {
	ctx, stop := cli.OrExit(ctx)
	defer stop()
	if _, _, err := operator.Peer(ctx); err != nil {
		return err
	}
	l, err := listenForPage(addr)
	if err != nil {
		return err
	}
	p := &watched{operator: operator}
	w := view.NewWatcher(p.source())
	watching, unwatch := context.WithCancel(ctx)
	var ends sync.WaitGroup
	ends.Go(func() { w.Run(watching) })
	s := page.Serve(l, w, page.Actions{Doctor: p.doctor, Move: p.move})
	_, err = fmt.Fprintf(out, "the run's page   %s\n  the part behind # is a key: who has it can remove members\n",
		s.URL())
	if err == nil {
		<-ctx.Done()
	}
	unwatch()
	ends.Wait()
	p.close()
	return errors.Join(err, s.Close())
}

// listenForPage listens on an address of this machine; without one at the usual place, or at a free
// port where another page is there.
func listenForPage(given string) (net.Listener, error) {
	if given == "" {
		if l, err := net.Listen("tcp", pageAddr); err == nil {
			return l, nil
		}
		return net.Listen("tcp", "127.0.0.1:0")
	}
	if _, err := api.ParseAddress(given); err != nil || strings.HasPrefix(given, api.Socket("")) {
		return nil, cli.UsageError(sources.Faultf("addr", given, "give a loopback address, like %s", pageAddr))
	}
	l, err := net.Listen("tcp", given)
	if err != nil {
		return nil, fmt.Errorf("the page: %w: choose another address with --addr, like 127.0.0.1:0 for any free port",
			err)
	}
	return l, nil
}

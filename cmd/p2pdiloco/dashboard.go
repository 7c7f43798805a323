package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco/bridge/peer"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/api"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/internal/view"
)

// pageAddr is where the page is unless another address is given: the same each time, so that a
// bookmark and a tunnel to it go on working.
const pageAddr = "127.0.0.1:8412"

func newDashboard() *cobra.Command {
	var operator operator
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

func showPage(ctx context.Context, out io.Writer, operator operator, addr string) error {
	ctx, stop := cli.OrExit(ctx)
	defer stop()
	if _, err := operator.find(ctx); err != nil {
		return err
	}
	end, err := servePage(ctx, out, operator, "addr", addr)
	if err != nil {
		return err
	}
	<-ctx.Done()
	return end()
}

// joinsPage serves the page of a peer for the command that the peer is.
func joinsPage(ctx context.Context, out io.Writer, dir, addr string) (end func() error, err error) {
	if addr == peer.UsualPage {
		addr = ""
	}
	return servePage(ctx, out, operator{Dir: dir}, "dashboard", addr)
}

// servePage serves the page of a peer until end is called, at the address that a flag has, and says
// where it is.
func servePage(
	ctx context.Context, out io.Writer, operator operator, flag, addr string,
) (end func() error, err error) {
	l, err := listenForPage(flag, addr)
	if err != nil {
		return nil, err
	}
	p := &watched{operator: operator}
	w, unwatch := p.watch(ctx)
	s := view.ServePage(l, w, view.PageActions{Doctor: p.doctor, Move: p.move, Ask: p.ask})
	end = func() error {
		unwatch()
		return s.Close()
	}
	_, err = fmt.Fprintf(out, "the run's page   %s\n  the part behind # is a key: who has it can remove members\n",
		s.URL())
	if err != nil {
		return nil, errors.Join(err, end())
	}
	return end, nil
}

// listenForPage listens on an address of this machine, which a flag has; without one at the usual
// place, or at a free port where another page is there.
func listenForPage(flag, given string) (net.Listener, error) {
	if given == "" {
		if l, err := net.Listen("tcp", pageAddr); err == nil {
			return l, nil
		}
		return net.Listen("tcp", "127.0.0.1:0")
	}
	if err := api.CheckLoopback(given); err != nil {
		return nil, cli.UsageError(sources.Faultf(flag, given, "%v", err))
	}
	l, err := net.Listen("tcp", given)
	if err != nil {
		return nil, fmt.Errorf("the page: %w: choose another address with --%s, like 127.0.0.1:0 for any free port",
			err, flag)
	}
	return l, nil
}

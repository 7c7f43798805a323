// Linkd keeps a network of namespaces on one machine (internal/lab) and changes it on request. lab.sh talks to it; its own
// commands are
//
//	linkd up NODES SOCKET [rate=200mbit] [delay=25ms] [jitter=5ms] [loss=1%] [queue=BYTES] [mtu=1500] [seed=1] [network=10.213.0.0/16]
//	linkd do SOCKET COMMAND...
//	linkd clean
//
// up needs root and runs until it is told `down`, or gets SIGINT or SIGTERM. It prints one line a node, its name, namespace and address, and
// then `ready`. do sends one command, prints the answer and exits with 1 if it was refused. clean removes the namespaces of those that
// crashed. Nodes are called n1, n2 and so on. Commands:
//
//	nodes                      name, namespace and address of each
//	link NODE...|all KEY=...   change links: rate, delay, jitter, loss, queue; what is not named stays
//	pair NODE NODE [KEY=...]   a further link between two nodes; without settings it goes
//	cut NODE...                unplug nodes
//	cutpair NODE NODE          keep two nodes from reaching each other
//	partition N1,N2 N3,...     groups that cannot reach each other; nodes not named are one more
//	heal [NODE...]             take back the cuts of these nodes, or all
//	stats                      packets and bytes by node
//	down                       end the network
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "linkd:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: linkd up NODES SOCKET [KEY=VALUE...] | linkd do SOCKET COMMAND... | linkd clean")

func run(ctx context.Context, args []string, out io.Writer) error {
	switch {
	case len(args) >= 3 && args[0] == "up":
		return up(ctx, args[1], args[2], args[3:], out)
	case len(args) >= 3 && args[0] == "do":
		return ask(ctx, args[1], strings.Join(args[2:], " "), out)
	case len(args) == 1 && args[0] == "clean":
		removed, err := lab.Clean(lab.DefaultName)
		for _, name := range removed {
			fmt.Fprintln(out, "removed", name)
		}
		return err
	}
	return errUsage
}

// up makes the network and serves it until ctx ends or somebody says down.
func up(ctx context.Context, nodes, socket string, settings []string, out io.Writer) (err error) {
	cfg, err := parseConfig(settings)
	if err != nil {
		return err
	}
	if cfg.Nodes, err = strconv.Atoi(nodes); err != nil {
		return fmt.Errorf("%q is not a number of nodes", nodes)
	}
	l, err := lab.New(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	c := newControl(named{l}, cfg.Link)
	listener, err := listen(ctx, socket)
	if err != nil {
		return err
	}
	text, err := c.do("nodes")
	if err == nil {
		_, err = fmt.Fprint(out, text, "ready\n")
	}
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	serve(ctx, listener, c)
	return nil
}

// named is a lab that can say where its nodes are.
type named struct{ *lab.Lab }

// Describe is a node's namespace and address.
func (n named) Describe(i int) string { return fmt.Sprint(n.Namespace(i), " ", n.Addr(i)) }

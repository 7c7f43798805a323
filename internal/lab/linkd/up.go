package linkd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// Up makes a network of nodes and serves it on the socket until ctx ends or a command ends it. It
// prints a line for each node, then "ready".
func Up(ctx context.Context, nodes, socket string, settings []string, out io.Writer) (err error) {
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

// named is a lab that can describe its nodes.
type named struct{ *lab.Lab }

// Describe is a node's namespace and address.
func (n named) Describe(i int) string { return fmt.Sprint(n.Space(i), " ", n.Addr(i)) }

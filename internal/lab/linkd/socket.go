package linkd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// A command is one line. The answer is what to print, after a first line that is "ok" or "error:
// why"; then the connection ends.

const (
	maxLine   = 64 << 10
	askWithin = 10 * time.Second
)

// listen makes a socket that only this user can connect to. It replaces a socket without a
// listener.
func listen(ctx context.Context, path string) (net.Listener, error) {
	if conn, err := net.Dial("unix", path); err == nil {
		_ = conn.Close()
		return nil, fmt.Errorf("another lab listens on %s", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// serve answers one connection after the other until ctx or the command down ends it.
func serve(ctx context.Context, listener net.Listener, c *control) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-ctx.Done():
		case <-c.down:
		}
		_ = listener.Close()
	}()
	for {
		conn, err := listener.Accept()
		if err != nil {
			<-ended // only that goroutine closes the listener
			return
		}
		answer(conn, c)
	}
}

func answer(conn net.Conn, c *control) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(askWithin))
	line, err := bufio.NewReader(io.LimitReader(conn, maxLine)).ReadString('\n')
	if err != nil {
		return // without a whole line there is no command to answer
	}
	text, err := c.do(line)
	if err != nil {
		_, _ = fmt.Fprintf(conn, "error: %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
		return
	}
	_, _ = io.WriteString(conn, "ok\n"+text)
}

// Ask sends a command to the network behind a socket, and prints the answer.
func Ask(ctx context.Context, path, command string, out io.Writer) error {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("%w: is the lab up?", err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(askWithin))
	if _, err := fmt.Fprintln(conn, command); err != nil {
		return err
	}
	answer := bufio.NewReader(conn)
	first, err := answer.ReadString('\n')
	if err != nil {
		return fmt.Errorf("the lab did not answer: %w", err)
	}
	if why, refused := strings.CutPrefix(first, "error: "); refused {
		return errors.New(strings.TrimSpace(why))
	}
	_, err = io.Copy(out, answer)
	return err
}

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

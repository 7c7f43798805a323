package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco/bridge/settings"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/node/datadir"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

type bootstrapFlags struct {
	listen   []string
	announce []string
	relay    relayFlags
	archive  archiveFlags
	identity string
	addrFile string
	logLevel settings.LogLevel
}

// NewBootstrap is the command bootstrap: a node of the DHT.
func NewBootstrap() *cobra.Command {
	f := &bootstrapFlags{logLevel: "warn"}
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Run a node of the DHT that newcomers can start from",
		Long: `Run a node of the DHT that newcomers can start from. It prints its addresses, takes no part in
any run by itself, and stops on SIGINT or SIGTERM. It may stop once peers know each other: a run goes on
without it, and newcomers can start from any peer of the run.

With --archive it also takes part in one open run, without training: it keeps the state, serves it to
newcomers, and goes on to serve the final model when the run has ended. In a run of trust crash it has
a vote as any member. For a private run use join --trainer none.

With --relay it also relays between peers that cannot connect to each other, for the runs named with
--relay-run, within limits for each peer and each address that hold over all its connections.`,
		Example: `  p2pdiloco bootstrap
  p2pdiloco bootstrap --listen /ip4/0.0.0.0/tcp/4001 --listen /ip4/0.0.0.0/udp/4001/quic-v1 --identity bootstrap.key
  p2pdiloco bootstrap --listen /ip4/0.0.0.0/tcp/4001 --listen /ip4/0.0.0.0/udp/4001/quic-v1 --relay --relay-run my-run`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			printed := newOutput(cmd.OutOrStdout(), cmd.ErrOrStderr())
			err := f.run(cmd.Context(), printed)
			_ = printed.end(outputTime) // it goes on without a reader
			return err
		},
	}
	fs := cmd.Flags()
	fs.Var(sources.Addresses(&f.listen), "listen",
		"`multiaddr` to listen on, may be repeated (default any free TCP and UDP port, with --identity the same as "+
			"before)")
	fs.Var(sources.Addresses(&f.announce), "announce",
		"`multiaddr` that others are told besides those seen, where a router or firewall lets them through to this "+
			"node; may be repeated")
	f.relay.register(fs)
	f.archive.register(fs)
	fs.StringVar(&f.identity, "identity", "",
		"`file` that keeps the key, and beside it, for free ports, FILE.ports, so that the addresses stay the same "+
			"over restarts; made if missing (default a new key and free ports each time)")
	fs.StringVar(&f.addrFile, "addr-file", "", "`file` to write the addresses to, one a line")
	fs.Var(f.logLevel.Flag(), "log-level", "of the log on stderr: "+strings.Join(settings.LogLevels(), ", "))
	return cmd
}

func (f *bootstrapFlags) run(ctx context.Context, printed output) error {
	relay, err := f.relay.config()
	if err != nil {
		return cli.UsageError(err)
	}
	identity, err := f.archive.prepare(f.identity)
	if err != nil {
		return cli.UsageError(err)
	}
	ctx, stop := cli.OrExit(ctx)
	defer stop()
	log := f.logLevel.Logger(printed.errs)
	var ports string
	if identity != "" {
		ports = identity + ".ports"
		var unlock func()
		if ctx, unlock, err = f.lock(ctx, identity, log); err != nil {
			return err
		}
		defer unlock()
	}
	net, err := p2p.New(ctx, p2p.Config{
		IdentityFile: identity, PortsFile: ports, Listen: f.listen, Announce: f.announce, Relay: relay,
		Logger: log,
	})
	if err != nil {
		return err
	}
	if err := f.tell(net.Addrs(), printed.out); err != nil {
		_ = net.Close()
		return err
	}
	if f.archive.run != "" {
		err = f.archive.keep(ctx, net, log, printed.out)
	}
	if err == nil {
		<-ctx.Done()
	}
	return errors.Join(err, net.Close())
}

// lock locks an identity for this process, and with it the data directory of an archive, which the
// context carries to the node. A second process would give the first one's ports up for others, and
// both would be thrown out of the network. An identity in a folder that cannot be written, as
// secrets are mounted, is used without a lock.
func (f *bootstrapFlags) lock(ctx context.Context, identity string, log *slog.Logger) (_ context.Context,
	unlock func(), err error,
) {
	if f.archive.run != "" {
		d, err := datadir.Open(disk.OS, f.archive.dir)
		if err != nil {
			return ctx, nil, errors.Join(err, d.Close())
		}
		return d.Lend(ctx), func() { _ = d.Close() }, nil
	}
	lock, err := disk.OS.Lock(identity + ".lock")
	switch {
	case errors.Is(err, disk.ErrLocked):
		return ctx, nil, fmt.Errorf("identity file %s: %w: another bootstrap node runs with it; stop that one, "+
			"or give this one another --identity", identity, err)
	case err != nil:
		log.Debug("the identity is used without a lock", "err", err)
		return ctx, func() {}, nil
	}
	return ctx, func() { _ = lock.Close() }, nil
}

func (f *bootstrapFlags) tell(addrs []string, stdout io.Writer) error {
	text := strings.Join(addrs, "\n") + "\n"
	if _, err := io.WriteString(stdout, text); err != nil {
		return err
	}
	if f.addrFile == "" {
		return nil
	}
	if err := writeFile(f.addrFile, text); err != nil {
		return fmt.Errorf("address file: %w", err)
	}
	return nil
}

// writeFile replaces the file at path atomically: a reader sees the old text or the new.
func writeFile(path, text string) error {
	if err := disk.Replace(disk.OS, path, []byte(text)); err != nil {
		return err
	}
	return os.Chmod(path, 0o644) // other users may read it
}

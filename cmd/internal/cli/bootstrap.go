package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco/bridge/peer"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

type bootstrapFlags struct {
	listen   []string
	announce []string
	relay    relayFlags
	identity string
	addrFile string
	logLevel peer.LogLevel
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

With --relay it also relays between peers that cannot connect to each other, for the runs named with
--relay-run, within limits for each peer and each address that hold over all its connections.`,
		Example: `  p2pdiloco bootstrap
  p2pdiloco bootstrap --listen /ip4/0.0.0.0/tcp/4001 --listen /ip4/0.0.0.0/udp/4001/quic-v1 --identity bootstrap.key
  p2pdiloco bootstrap --listen /ip4/0.0.0.0/tcp/4001 --listen /ip4/0.0.0.0/udp/4001/quic-v1 --relay --relay-run my-run`,
		Args: NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			printed := newOutput(cmd.OutOrStdout(), cmd.ErrOrStderr())
			err := f.run(cmd.Context(), printed)
			_ = printed.end(outputTime) // it goes on without a reader
			return err
		},
	}
	fs := cmd.Flags()
	fs.StringArrayVar(&f.listen, "listen", nil,
		"`multiaddr` to listen on, may be repeated (default any free TCP and UDP port, with --identity the same as "+
			"before)")
	fs.StringArrayVar(&f.announce, "announce", nil,
		"`multiaddr` that others are told besides those seen, where a router or firewall lets them through to this "+
			"node; may be repeated")
	f.relay.register(fs)
	fs.StringVar(&f.identity, "identity", "",
		"`file` that keeps the key, and beside it FILE.ports, so that the addresses stay the same over restarts; "+
			"made if missing (default a new key and free ports each time)")
	fs.StringVar(&f.addrFile, "addr-file", "", "`file` to write the addresses to, one a line")
	fs.Var(f.logLevel.Flag(), "log-level", peer.LogLevelUsage)
	return cmd
}

func (f *bootstrapFlags) run(ctx context.Context, printed output) error {
	relay, err := f.relay.config()
	if err != nil {
		return UsageError(err)
	}
	ctx, stop := OrExit(ctx)
	defer stop()
	log := f.logLevel.Logger(printed.errs)
	var ports string
	if f.identity != "" {
		ports = f.identity + ".ports"
		unlock, err := f.lock(log)
		if err != nil {
			return err
		}
		defer unlock()
	}
	net, err := p2p.New(ctx, p2p.Config{
		IdentityFile: f.identity, PortsFile: ports, Listen: f.listen, Announce: f.announce, Relay: relay,
		Logger: log,
	})
	if err != nil {
		return err
	}
	if err := f.tell(net.Addrs(), printed.out); err != nil {
		_ = net.Close()
		return err
	}
	<-ctx.Done()
	return net.Close()
}

// lock locks the identity for this process. A second process would give the first one's ports up
// for others, and both would be thrown out of the network. An identity in a folder that cannot be
// written, as secrets are mounted, is used without a lock.
func (f *bootstrapFlags) lock(log *slog.Logger) (unlock func(), err error) {
	lock, err := disk.OS.Lock(f.identity + ".lock")
	switch {
	case errors.Is(err, disk.ErrLocked):
		return nil, fmt.Errorf("identity file %s: %w: another bootstrap node runs with it; stop that one, "+
			"or give this one another --identity", f.identity, err)
	case err != nil:
		log.Debug("the identity is used without a lock", "err", err)
		return func() {}, nil
	}
	return func() { _ = lock.Close() }, nil
}

func (f *bootstrapFlags) tell(addrs []string, stdout io.Writer) error {
	text := strings.Join(addrs, "\n") + "\n"
	if _, err := io.WriteString(stdout, text); err != nil {
		return err
	}
	if f.addrFile == "" {
		return nil
	}
	// it is replaced at once, and other users may read it
	err := disk.Replace(disk.OS, f.addrFile, []byte(text))
	if err == nil {
		err = os.Chmod(f.addrFile, 0o644)
	}
	if err != nil {
		return fmt.Errorf("address file: %w", err)
	}
	return nil
}

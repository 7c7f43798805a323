package p2p

import (
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/libp2p/go-libp2p/core/host"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

const maxPortsFile = 4096 // bytes

// listenKept listens on some addresses, those with port 0 at the ports that Config.PortsFile
// remembers, and remembers those that it got. Others know this peer's addresses: at the same ports
// they find it after a restart, without anybody's help. Where another program has taken a port, any
// free one is taken for this start; the next start tries the old one first. There is an error for
// each address that cannot be had.
func listenKept(h host.Host, cfg Config, addrs []string) (errs []error) {
	if cfg.PortsFile == "" {
		return listenOn(h, addrs)
	}
	kept, err := loadPorts(cfg.PortsFile)
	if err != nil {
		cfg.Logger.Warn("the ports of the last start are not known: listening on any free ones", "file", cfg.PortsFile,
			"err", err)
	}
	// what is asked for as it stands is nobody else's
	left := slices.DeleteFunc(slices.Clone(kept), func(old string) bool { return slices.Contains(addrs, old) })
	var now []string // those that could not be had now come first: the next start tries them again
	for _, a := range addrs {
		var busy []string
		had := false
		for !had {
			i := slices.IndexFunc(left, func(old string) bool { return anyPort(old) == a })
			if i < 0 {
				break
			}
			old := left[i]
			left = slices.Delete(left, i, i+1)
			if had = listenOn(h, []string{old}) == nil; !had {
				busy = append(busy, old)
			}
		}
		if !had {
			failed := listenOn(h, []string{a})
			if errs = append(errs, failed...); len(busy) > 0 && len(failed) == 0 {
				cfg.Logger.Warn("the port of the last start is taken by another program: listening on another one "+
					"instead, so others have to find this peer anew, and addresses of it that were handed out do not "+
					"work; the next start tries the old port again", "was", busy[0], "now", listeningAs(h, a))
			}
		}
		now = append(now, busy[:min(1, len(busy))]...)
	}
	if len(errs) == len(addrs) {
		return errs
	}
	for _, a := range addrs {
		for _, l := range listeningAs(h, a) {
			if !slices.Contains(addrs, l) && !slices.Contains(now, l) {
				now = append(now, l)
			}
		}
	}
	if len(now) == 0 || slices.Equal(now, kept) {
		return errs
	}
	if err := disk.Replace(disk.OS, cfg.PortsFile, []byte(strings.Join(now, "\n")+"\n")); err != nil {
		cfg.Logger.Warn("the ports cannot be remembered: after a restart this peer listens on others", "file",
			cfg.PortsFile, "err", err)
	}
	return errs
}

// loadPorts reads addresses that were listened on, one a line; a missing file has none.
func loadPorts(path string) ([]string, error) {
	b, err := disk.Read(disk.OS, path, maxPortsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return strings.Fields(string(b)), err
}

// listeningAs are the addresses listened on that a default address, with port 0, stands for.
func listeningAs(h host.Host, a string) (out []string) {
	for _, l := range h.Network().ListenAddresses() {
		if s := l.String(); !peers.IsRelayed(l) && anyPort(s) == a {
			out = append(out, s)
		}
	}
	return out
}

// anyPort is an address with port 0 in place of its own.
func anyPort(a string) string {
	parts := strings.Split(a, "/")
	for i := 1; i < len(parts); i++ {
		if _, err := strconv.ParseUint(parts[i], 10, 16); err == nil && (parts[i-1] == "tcp" || parts[i-1] == "udp") {
			parts[i] = "0"
		}
	}
	return strings.Join(parts, "/")
}

package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
)

// An Internet has a site and a host for each Site that NewInternet was given, numbered from 0.
// Its methods are for one goroutine at a time.
type Internet struct {
	lab   *Lab // of the sites: a host or a router each
	kinds []Site
	hosts []Space // behind the routers
}

// NewInternet makes an internet whose sites have equal links, after it has removed what crashed
// processes with one of this name left. It fails with ErrNotRoot without the rights. ctx bounds
// only NewInternet; Close ends the internet.
func NewInternet(ctx context.Context, name string, link Link, kinds ...Site) (*Internet, error) {
	l, err := New(ctx, Config{
		Nodes: len(kinds), Name: name, Network: netip.MustParsePrefix("11.77.0.0/16"), Link: link,
	})
	if err != nil {
		return nil, err
	}
	// One letter more tells the names apart: leftovers are looked for by the name alone.
	w := &Internet{lab: l, kinds: kinds}
	w.hosts, err = NewSpaces(ctx, name+"x", len(kinds))
	for i, kind := range kinds {
		if err == nil && kind != Public {
			err = route(ctx, kind, l.Space(i), w.hosts[i])
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lab: internet: %w", err), w.Close())
	}
	return w, nil
}

// All homes have the same addresses: that of the router inside, and that of its one host.
const inside, private = "192.168.1.1", "192.168.1.2"

// route makes a router of a kind, and connects a host to it by a pair of veth devices.
func route(ctx context.Context, kind Site, router, host Space) error {
	err := router.IP(ctx, "link add lan0 type veth peer name eth0 netns "+string(host),
		"address add "+inside+"/30 dev lan0", "link set lan0 up")
	if err == nil {
		err = host.IP(ctx, "link set lo up", "address add "+private+"/30 dev eth0", "link set eth0 up",
			"route add default via "+inside)
	}
	if err == nil {
		err = router.Run(ctx, "", "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
	}
	if err == nil {
		err = router.Run(ctx, routerRules(kind), "nft", "-f", "-")
	}
	return err
}

// Kind is the kind of host h's site.
func (w *Internet) Kind(h int) Site { return w.kinds[h] }

// Addr is host h's own address: a private one unless its site is public.
func (w *Internet) Addr(h int) netip.Addr {
	if w.kinds[h] == Public {
		return w.lab.Addr(h)
	}
	return netip.MustParseAddr(private)
}

// Space is the namespace of host h.
func (w *Internet) Space(h int) Space {
	if w.kinds[h] == Public {
		return w.lab.Space(h)
	}
	return w.hosts[h]
}

// Place makes cmd, which has not been started, run on host h.
func (w *Internet) Place(h int, cmd *exec.Cmd) error { return w.Space(h).Place(cmd) }

// Close takes the internet down. Processes in it must have ended: a process that still runs keeps
// its namespace, without a name, until it ends.
func (w *Internet) Close() error { return errors.Join(RemoveSpaces(w.hosts), w.lab.Close()) }

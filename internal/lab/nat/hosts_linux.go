package nat

import (
	"fmt"
	"net/netip"
	"os/exec"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// Lab is the internet, whose nodes are the sites: for links and cuts.
func (w *World) Lab() *lab.Lab { return w.lab }

// Kind is the kind of the site where host h is.
func (w *World) Kind(h int) Kind { return w.cfg.Sites[w.hosts[h].site].Kind }

// Site is where host h is.
func (w *World) Site(h int) int { return w.hosts[h].site }

// Addr is host h's own address: a private one unless its site is public.
func (w *World) Addr(h int) netip.Addr { return w.hosts[h].addr }

// PublicAddr is the address under which others see host h.
func (w *World) PublicAddr(h int) netip.Addr { return w.lab.Addr(w.hosts[h].site) }

// Place makes cmd, which has not been started, run on host h.
func (w *World) Place(h int, cmd *exec.Cmd) error {
	if h < 0 || h >= len(w.hosts) {
		return w.noHost(h)
	}
	return w.hosts[h].space.Place(cmd)
}

// Do calls f on host h; see lab.Space.
func (w *World) Do(h int, f func() error) error {
	if h < 0 || h >= len(w.hosts) {
		return w.noHost(h)
	}
	return w.hosts[h].space.Do(f)
}

func (w *World) noHost(h int) error {
	return fmt.Errorf("nat: no host %d: they are numbered from 0 to %d", h, len(w.hosts)-1)
}

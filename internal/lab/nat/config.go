package nat

import (
	"errors"
	"fmt"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// Kind is how hosts of a site are connected to the internet.
type Kind string

// The kinds, from the easiest to reach to the hardest.
const (
	Public         Kind = "public"
	FullCone       Kind = "full-cone"
	PortRestricted Kind = "port-restricted"
	DoubleNAT      Kind = "double-nat"
	Symmetric      Kind = "symmetric"
	NoUDP          Kind = "no-udp"
)

// Kinds lists them all.
var Kinds = lab.Names[Kind]{Public, FullCone, PortRestricted, DoubleNAT, Symmetric, NoUDP}

// Site is a place on the internet, with one public address.
type Site struct {
	Kind Kind
	// LAN is the third number of its hosts' private addresses, 192.168.LAN.0/24; 0 means 1, as at
	// most people's homes. Hosts of two homes with equal numbers have equal addresses.
	LAN int
}

// Config describes a World.
type Config struct {
	Sites []Site
	Hosts []int    // the first site of each host
	Link  lab.Link // of every site
	// what the namespaces' names begin with, defaultName by default: at most 15 lower-case letters
	// and digits
	Name string
	Seed uint64 // of the links' loss and jitter
}

// defaultName is the usual beginning of namespaces' names.
const defaultName = "p2pnat"

// maxSites bounds a World's sites, and its hosts.
const maxSites = 64

// maxLAN is the largest third number.
const maxLAN = 254

func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = defaultName
	}
	c.Sites = slices.Clone(c.Sites)
	for i := range c.Sites {
		if c.Sites[i].LAN == 0 {
			c.Sites[i].LAN = 1
		}
	}
	return c
}

// Validate returns all faults of c in one error.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	if n := len(c.Sites); n < 1 || n > maxSites {
		errs = append(errs, fmt.Errorf("%d sites: from 1 to %d", n, maxSites))
	}
	if len(c.Hosts) > maxSites {
		errs = append(errs, fmt.Errorf("%d hosts: at most %d", len(c.Hosts), maxSites))
	}
	for i, s := range c.Sites {
		if !slices.Contains(Kinds, s.Kind) {
			errs = append(errs, fmt.Errorf("site %d is %q: allowed: %v", i, s.Kind, Kinds))
		}
		if s.LAN < 0 || s.LAN > maxLAN {
			errs = append(errs, fmt.Errorf("site %d has LAN %d: from 1 to %d", i, s.LAN, maxLAN))
		}
	}
	at := make(map[int]int)
	for h, site := range c.Hosts {
		if site < 0 || site >= len(c.Sites) {
			errs = append(errs, fmt.Errorf("host %d is at site %d: there are %d", h, site, len(c.Sites)))
			continue
		}
		if at[site]++; at[site] == 2 && c.Sites[site].Kind == Public {
			errs = append(errs, fmt.Errorf("site %d is public and has two hosts: its one address is the first one's",
				site))
		}
	}
	return errors.Join(append(errs, c.Link.Validate())...)
}

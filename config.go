package p2pdiloco

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/node/edge"
	"github.com/p2pdiloco/p2pdiloco/internal/node/replica"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
	"github.com/p2pdiloco/p2pdiloco/outeropt"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// What a peer does when no quorum of the members is left.
const (
	OnLossContinue = "continue"
	OnLossPause    = "pause"
)

// Names of the timing presets (Config.Preset).
const (
	// one machine or one building: a dead peer is seen within a second, one cut off in 2
	PresetLAN = edge.PresetLAN
	PresetWAN = edge.PresetWAN // the internet
)

// Config is how one peer takes part in a run. Run-wide settings are in Spec; the rest concerns this
// peer alone.
type Config struct {
	// Spec holds the run's name and the settings given here; zero fields are adopted from the run,
	// or defaulted if this peer founds it.
	Spec Spec
	// Trainer owns the model. Without one, call Anchor and Sync, or let the node be a member that
	// only votes and serves. Such a peer can adopt the run's layout; to found a run it must give
	// Spec.Layout and may give Init.
	Trainer Trainer
	// Init writes the initial parameters if this peer founds the run; nil asks the Trainer. Without
	// one it means zeros where Spec.Layout is given, and else that this peer founds nothing.
	Init func(dst []float32) error
	// InitFile is a .safetensors file that holds the initial parameters, tensor by tensor as the
	// layout names them, or with one prefix more or less. It takes the place of Init, and settles
	// Spec.Init: peers that found the run must have the same file. Peers that join it need none.
	InitFile string

	// PeerName is what others call this peer beside its ID: at most 24 letters, digits, spaces and
	// -_.:+/@()#. All members see it. Default: the machine's name, without its domain.
	PeerName string

	// DataDir keeps identity, votes, records and checkpoints. A peer restarted with it carries on
	// as the same member. Empty means a temporary directory, removed at Close: the peer comes back
	// as a new member.
	DataDir string
	// Network is a started network to use, made for example with p2p.WithHost from an existing
	// libp2p host; it is not closed here. When nil, the node makes its own from the fields below.
	Network *p2p.Network
	// Listen holds multiaddrs; default: any free TCP and QUIC port.
	Listen []string
	// Bootstrap holds multiaddrs, ending in /p2p/PEER, of nodes of the DHT to start from. Where one
	// is a member of a run of Spec.Name, that run is meant, whichever other runs have the name.
	// Without any, peers are looked for on the local network (mDNS).
	Bootstrap []string
	// Announce holds multiaddrs that others are told besides those seen: where a router or firewall
	// lets them through to this peer.
	Announce []string
	// NoPortMap keeps the node from asking the router (UPnP, NAT-PMP) to forward its ports, which
	// it does except on a LAN (Preset).
	NoPortMap bool
	// NoRelaying keeps the node from relaying for members of the run that cannot connect to each
	// other, and for others within the bounds of p2p.MemberRelay.
	NoRelaying bool
	// Found lets this peer found the run although none of its bootstrap addresses answers. AtOnce,
	// beside it, has it look for no other peer first. One whose data directory was in the run
	// before goes on with that.
	Found, AtOnce bool
	// MayFound is asked before this peer founds the run with an ID. Its error ends Join; nil: it
	// may found any.
	MayFound func(id Root) error
	// RunID is what the run's ID begins with, in hex digits, where several runs have the name. A
	// peer with it joins that run, and never founds one.
	RunID string
	// OnQuorumLoss is what this peer does when no quorum of the members is heard for the preset's
	// time (20 s on a LAN, 5 min on a WAN): OnLossContinue (default) forks the run with the members
	// that are left; OnLossPause waits for them, or for Recover. Each peer chooses for itself: a
	// fork lists those that want it.
	OnQuorumLoss string
	// Ticket is the text of an invitation to the run, from Node.Invite or `p2pdiloco invite`. It
	// takes the place of Spec.Name, Pin and Bootstrap. A Spec.Name or Pin that is given beside it
	// must be the ticket's; addresses in Bootstrap are tried as well. A peer with a ticket joins a
	// run, and never founds one.
	Ticket string
	// Pin is the hash of a record that the run's chain must have, as a peer that is trusted knows
	// it (Status.Pin). This peer neither joins a chain without it nor switches to one. Zero: it
	// trusts the chain of the first peers that it meets.
	Pin Root
	// AdmissionSecret is a file with the secret of a private run, as its founder's peer has made it
	// (admission.secret in its data directory). A peer that has it needs no ticket. The data
	// directory keeps a copy. A run that is founded with Spec.Access private makes a secret if none
	// is given.
	AdmissionSecret string
	// Follow lists peers whose motions about the members of the run (Remove, Readmit, RotateSecret)
	// this one makes, too: so the operator of one peer can act for many. Motions against this peer
	// itself are not followed.
	Follow []PeerID
	// Preset is the timing of the network, "lan" or "wan", the same for all peers of a run. Empty:
	// as the data directory remembers it or, for a newcomer, as the run's peers have it; a founder
	// takes wan.
	Preset string
	// Linger is for how long this peer serves the final model, after the last slot, to members of
	// the last hour that do not show that they have it. Zero: as the preset has it (30 s on a LAN,
	// 10 min on a WAN). Where all have it, it ends at once.
	Linger time.Duration
	// CheckpointEvery is the number of rounds between checkpoints (slots, where the run has one
	// fragment); default 4. One more is made when the node leaves or closes. Outcomes are on disk
	// as well: a restarted peer takes the newest checkpoint and applies the outcomes of the slots
	// since.
	CheckpointEvery uint64
	// KeepCheckpoints is how many of the newest certified checkpoints are kept, with all outcomes
	// since the oldest of them; default 2. With two, a peer whose newest one is corrupt takes the
	// other. And a peer that fetches one can finish, although the next one is written meanwhile.
	KeepCheckpoints int

	// StateBytesPerSecond bounds what this peer sends to peers that fetch states and outcomes from
	// it. Default: 4 MB a core, which takes some 2% of the machine's processors. While a reduction
	// runs here, an eighth of it is sent.
	StateBytesPerSecond int64

	// NewcomerStates is how many full states this peer of an open run gives in an hour to one peer
	// that has not been a member; default 3. SiteNewcomers is how many such peers at one address
	// it serves in an hour; default 128. Together they get as many states. An address is an IPv4
	// address or a /56 of IPv6; loopback is not counted. An outcome counts as an eighth of a
	// state. Below 0 there is no bound.
	NewcomerStates, SiteNewcomers int

	// MaxUpload bounds the bytes a second that this peer sends for the all-reduce and to peers that
	// fetch states and outcomes; what else it sends (the ledger, gossip) is counted against it and
	// never waits. At least p2p.MinUpload; 0: no bound. With Network it is the network's own
	// affair.
	MaxUpload int64
	// MaxDownload bounds the bytes a second that it takes in of contributions, outcomes and states,
	// and so holds their senders back; what else comes is counted against it and never waits. At
	// least p2p.MinDownload; 0: no bound. With Network it is the network's own affair.
	MaxDownload int64

	// MaxAdopted bounds the model of a run whose layout is adopted from other peers, in elements; a
	// layout given here is not bounded. A node keeps five vectors of that many float32. Default 1
	// Gi.
	MaxAdopted uint64

	// OnEvent is called for every event, one at a time; it must not block, nor call the node.
	OnEvent func(Event)
	// Logger is silent when nil. Its handler must not block either: the parts of the node log while
	// others wait for them.
	Logger *slog.Logger

	// Ticket as withDefaults has read it; nil if there is none, or it cannot be read
	ticket *ticket.Ticket
}

func (c Config) withDefaults() Config {
	c = c.withTicket()
	if c.Trainer != nil && len(c.Spec.Layout) == 0 {
		c.Spec.Layout = c.Trainer.Layout()
	}
	if c.OnQuorumLoss == "" {
		c.OnQuorumLoss = OnLossContinue
	}
	if c.MaxAdopted == 0 {
		c.MaxAdopted = 1 << 30
	}
	if c.CheckpointEvery == 0 {
		c.CheckpointEvery = 4
	}
	if c.KeepCheckpoints == 0 {
		c.KeepCheckpoints = 2
	}
	if c.StateBytesPerSecond == 0 {
		c.StateBytesPerSecond = 4_000_000 * int64(runtime.GOMAXPROCS(0))
	}
	c.NewcomerStates, c.SiteNewcomers = cmp.Or(c.NewcomerStates, 3), cmp.Or(c.SiteNewcomers, 128)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// preset is the name of the one to begin with.
func (c Config) preset() string { return cmp.Or(c.Preset, PresetWAN) }

// least is a spec of which a node needs no more memory than of the run's: what is not given may
// come from there.
func least(s Spec) Spec {
	s.Mode, s.Fragments = cmp.Or(s.Mode, ModeStreaming), cmp.Or(s.Fragments, slot.MaxFragments)
	s.Outer, s.Momentum = cmp.Or(s.Outer, outeropt.SGD), cmp.Or(s.Momentum, "0")
	return s.Settled()
}

// Validate reports every fault at once.
func (c Config) Validate() error {
	c = c.withDefaults()
	errs := append(c.checkTicket(), c.Spec.Validate())
	if len(c.Spec.Layout) > 0 { // without one, the run's is adopted
		errs = append(errs, c.Spec.Layout.Validate())
		if errors.Join(errs...) == nil {
			errs = append(errs, replica.CheckMemory(least(c.Spec), replica.MachineMemory()))
		}
	}
	if c.Trainer != nil {
		if d := c.Spec.Layout.Diff(c.Trainer.Layout()); d != "" {
			errs = append(errs, fmt.Errorf("Spec.Layout is not the trainer's: %s", d))
		}
	}
	refuse := func(fault bool, format string, args ...any) {
		if fault {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	_, named := edge.PresetNamed(c.preset())
	refuse(!named, "preset %q: allowed: %s, %s", c.Preset, PresetLAN, PresetWAN)
	refuse(c.OnQuorumLoss != OnLossContinue && c.OnQuorumLoss != OnLossPause,
		"on quorum loss %q: allowed: %s, %s", c.OnQuorumLoss, OnLossContinue, OnLossPause)
	unfit := CheckPeerName(c.PeerName)
	refuse(unfit != nil, "PeerName %q: %v", c.PeerName, unfit)
	refuse(c.MaxUpload != 0 && c.MaxUpload < p2p.MinUpload,
		"MaxUpload %d: at least %d bytes a second, or 0 for no bound", c.MaxUpload, p2p.MinUpload)
	refuse(c.MaxDownload != 0 && c.MaxDownload < p2p.MinDownload,
		"MaxDownload %d: at least %d bytes a second, or 0 for no bound", c.MaxDownload, p2p.MinDownload)
	refuse(c.RunID != "" && c.Found, "the RunID %s, or its ticket, is for a run that exists, and Found founds one: "+
		"give one of them", c.RunID)
	refuse(strings.Trim(c.RunID, "0123456789abcdef") != "" || len(c.RunID) > 2*len(Root{}),
		"RunID %q: allowed: the first hex digits of a run's ID", c.RunID)
	refuse(c.Linger < 0, "Linger %v: a duration, or 0 for the preset's", c.Linger)
	refuse(c.KeepCheckpoints < 0, "KeepCheckpoints %d: at least 1", c.KeepCheckpoints)
	refuse(c.InitFile != "" && c.Init != nil,
		"both Init and InitFile are given: one of them says what the model begins with")
	refuse(c.InitFile != "" && len(c.Spec.Layout) == 0,
		"InitFile needs a Trainer or Spec.Layout, to know which tensors make up the model")
	return errors.Join(errs...)
}

// withTicket fills in what the ticket says and was not given. What contradicts the ticket stays,
// for checkTicket to find.
func (c Config) withTicket() Config {
	if c.Ticket == "" {
		return c
	}
	t, err := ticket.Parse(c.Ticket)
	if err != nil {
		return c
	}
	c.ticket = &t
	if c.Spec.Name == "" {
		c.Spec.Name = t.Run
	}
	if c.RunID == "" {
		c.RunID = t.RunID.String()
	}
	if c.Pin.IsZero() {
		c.Pin = t.Pin
	}
	return c
}

// checkTicket finds what is wrong with the ticket, and with what was given beside it.
func (c Config) checkTicket() (errs []error) {
	if c.Ticket == "" {
		return nil
	}
	if c.ticket == nil {
		_, err := ticket.Parse(c.Ticket)
		return []error{err}
	}
	if c.Spec.Name != c.ticket.Run {
		errs = append(errs, fmt.Errorf("Spec.Name is %q, and the ticket is for run %q: give one of them", c.Spec.Name,
			c.ticket.Run))
	}
	if c.Pin != c.ticket.Pin {
		errs = append(errs, fmt.Errorf("a Pin %s, where the ticket pins %s: give one of them", c.Pin, c.ticket.Pin))
	}
	if !strings.HasPrefix(c.ticket.RunID.String(), c.RunID) {
		errs = append(errs, fmt.Errorf("the ticket is for the run with the ID %s, not %s: give one of them",
			c.ticket.RunID.Short(), c.RunID))
	}
	return errs
}

// start returns the peers of Bootstrap. Whoever founds a run at once asks none of them first.
func (c Config) start() (peers []PeerID) {
	for _, a := range c.Bootstrap {
		if id, err := slot.ParsePeerID(a[strings.LastIndex(a, "/")+1:]); err == nil && !c.AtOnce {
			peers = append(peers, id)
		}
	}
	return peers
}

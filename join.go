package p2pdiloco

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/machine"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/membership/statesync"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// Node is one peer of a run. Run, Anchor, Sync, Begin and Finish are for one goroutine at a time; the rest may be called from any.
type Node struct {
	cfg     Config
	spec    Spec
	run     Root
	log     *slog.Logger
	timing  preset
	dir     dataDir
	net     *p2p.Network
	started time.Time
	returns bool // its data directory knows the run from before

	doorman *doorman // of a private run; nil for an open one
	orders  struct {
		sync.Mutex
		all []slot.Order // of this peer's operator
	}
	gated     bool // net has a gate of this node's
	meeting   *meeting
	store     membership.Store
	driver    *membership.Driver
	transport *ledgerTransport
	worker    *worker
	server    *statesync.Server
	wasMember peerSet // since this node started: no newcomers, if they come back

	closed   context.Context // ends with Close
	stop     context.CancelFunc
	wg       sync.WaitGroup
	starting sync.Mutex // held where wg grows while the node may be closed
	closing  sync.Once
	closeErr error
	fault    atomic.Pointer[error]     // why the node ended by itself
	abrupt   bool                      // Close saves nothing: tests kill nodes so
	telling  sync.Mutex                // held over OnEvent: one event at a time
	task     atomic.Pointer[Task]      // newest
	reported atomic.Pointer[time.Time] // when the ledger was last told of inner steps; nil: this peer does not contribute yet

	training atomic.Int64 // time spent in inner steps, in nanoseconds
	idle     idle
	gauges   gauges
	tempo    tempo // of the inner steps
	times    slotTimes

	// Of the goroutine that runs the rounds.
	start    []float32 // what the inner steps started from: the anchor, moved ahead in an overlapped mode
	held     uint64    // the anchor's slot
	base     uint64    // the newest slot that the start could have in it: a contribution is stale by those after it
	anchored bool      // there is an anchor to start from
	moves    uint64    // of the ledger, when it was taken: one that moved to another branch since makes it void
	local    []float32 // scratch: local parameters, then the pseudo-gradient
	part     []float32 // scratch of gather: one fragment
	last     Stats     // of the inner steps since they were told last
	measured *uint64   // slot of the anchor that was evaluated last
	blind    bool      // the trainer has said that it cannot
	coarse   bool      // it has said that it cannot be loaded and exported in parts
	begun    *Round    // not finished
	freed    time.Time // when a loop of one's own could begin its inner steps
	flight   *flight   // of an overlapped mode: the contribution under way
	tarry    tarry
	eager    eager
	landing  landing // of mode streaming
	trained  bool    // since the trainer's private state was saved
	restored bool    // that state, if there was any
}

// Join takes part in the run that cfg.Spec names. It starts the network, finds the run through its peers, or settles its
// spec here if nobody knows it, and starts the ledger and everything under it. It returns once the spec is settled: the
// node then joins in the background, and Run, Anchor and Sync wait for that. ctx bounds Join alone.
func Join(ctx context.Context, cfg Config) (_ *Node, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg, err = cfg.withDefaults().withInitFile(); err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, log: cfg.Logger, timing: presets[cfg.preset()], started: time.Now()}
	n.closed, n.stop = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
		}
	}()
	known, err := n.openData()
	if err != nil {
		return nil, err
	}
	if err := n.openNetwork(ctx); err != nil {
		return nil, err
	}
	if err := n.closeGate(); err != nil {
		return nil, err
	}
	n.emit("peer.started", map[string]any{"pid": os.Getpid(), "peer_id": n.Self(), "addrs": n.Addrs()})
	if err := n.settle(ctx, known); err != nil {
		return nil, err
	}
	if err := n.open(); err != nil {
		return nil, err
	}
	return n, nil
}

// openData opens the data directory, and holds what is given against what it knows. The run's spec is known if this peer was in it before.
func (n *Node) openData() (known *Spec, err error) {
	if n.dir, err = openDataDir(n.cfg.disk, n.cfg.DataDir); err != nil {
		return nil, err
	}
	if known, err = n.dir.loadSpec(n.cfg.Spec); err != nil {
		return nil, err
	}
	if err := n.recallPreset(); err != nil {
		return nil, err
	}
	if err := n.fitTicket(known); err != nil {
		return nil, err
	}
	return known, n.openAdmission(known)
}

func (n *Node) openNetwork(ctx context.Context) (err error) {
	if n.net = n.cfg.Network; n.net != nil {
		return nil
	}
	if n.dir.has("ledger.log") && !n.dir.has("identity") {
		return fmt.Errorf("data directory %s has a ledger.log but no identity: put the identity back, or move the directory away to join as a new peer", n.dir.root)
	}
	cfg := p2p.WAN()
	if n.cfg.Preset == PresetLAN {
		cfg = p2p.LAN()
	}
	cfg.IdentityFile, cfg.PeersFile = n.dir.path("identity"), n.dir.path("peers")
	cfg.Listen, cfg.Bootstrap, cfg.MDNS = n.cfg.Listen, n.cfg.Bootstrap, len(n.cfg.Bootstrap) == 0
	cfg.Logger, cfg.MaxUpload, cfg.MaxDownload = n.log, n.cfg.MaxUpload, n.cfg.MaxDownload
	cfg.Announce, cfg.PortMap = n.cfg.Announce, !n.cfg.NoPortMap && n.cfg.Preset != PresetLAN
	if !n.cfg.NoRelaying {
		cfg.Relay = p2p.MemberRelay()
	}
	n.net, err = p2p.New(ctx, cfg)
	return err
}

// settle meets the run's peers until it is known which spec holds. A restarted peer knows it from its data directory.
func (n *Node) settle(ctx context.Context, known *Spec) (err error) {
	if n.cfg.ticket != nil {
		if err := n.net.AddBootstrap(n.cfg.ticket.Addrs); err != nil {
			return err
		}
	}
	n.meeting = newMeeting(n.net, n.cfg, n.timing)
	if n.doorman != nil {
		n.meeting.refused, n.meeting.isIn, n.meeting.barred = n.doorman.refused, n.doorman.isIn, n.doorman.barred
	}
	n.meeting.places = n.places()
	if err := n.checkAccess(known); err != nil {
		return err
	}
	if known != nil {
		n.meeting.adopt(*known)
	} else {
		n.emit("run.searching", map[string]any{
			"run":    n.cfg.Spec.Name,
			"detail": n.searching(),
		})
	}
	n.wg.Go(func() { n.meeting.serve(n.closed) })
	n.net.AdvertiseAt(n.closed, n.places())
	n.returns = known != nil
	if n.spec, err = n.meeting.await(ctx); err != nil {
		return err
	}
	if err := n.awaitAdmission(ctx); err != nil {
		return err
	}
	if err := machine.Holds(n.spec.Layout.Elements()); err != nil { // adopted
		return err
	}
	if err := n.adoptPreset(ctx); err != nil {
		return err
	}
	n.run = n.spec.RunID()
	return n.dir.saveSpec(n.spec)
}

// searching says what happens while nobody is found who knows the run.
func (n *Node) searching() string {
	window := n.timing.discovery + n.timing.ledger.FoundAfter
	if n.cfg.ticket != nil {
		return "looking for the peers that the ticket names, or others of its run; it is not founded here"
	}
	if len(n.cfg.Bootstrap) > 0 && !n.cfg.Found {
		return fmt.Sprintf("looking for peers that know the run; if a bootstrap address answers and there are none, it is founded after %v", window)
	}
	return fmt.Sprintf("looking for peers that know the run; if there are none, it is founded after %v", window)
}

// Self is this peer's ID.
func (n *Node) Self() PeerID { return n.net.ID() }

// Addrs are the multiaddrs that this peer listens on, each ending in /p2p/ID: others may bootstrap from them.
func (n *Node) Addrs() []string { return n.net.Addrs() }

// Spec is the run's settled spec.
func (n *Node) Spec() Spec { return n.spec }

// RunID is the hash of the run's spec.
func (n *Node) RunID() Root { return n.run }

package p2pdiloco

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/machine"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
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
	if err := n.adoptPreset(); err != nil {
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

// open starts everything that needs the spec: stores, transports, worker, ledger.
func (n *Node) open() (err error) {
	d := n.spec.Layout.Elements()
	if err := n.makeVectors(int(d)); err != nil {
		return err
	}
	store, err := membership.OpenStoreOn(n.cfg.disk, n.dir.root, n.run, rand.Reader, n.log)
	if err != nil {
		return err
	}
	n.store = store
	if n.worker, err = n.newWorker(); err != nil {
		return err
	}
	saved, err := n.store.Load()
	if err != nil {
		return err
	}
	if err := n.openLedger(saved); err != nil {
		return err
	}
	n.worker.certified = n.driver.Record
	n.worker.members = func() []PeerID { return peersOf(n.driver.View()) }
	if err := n.restore(); err != nil {
		return err
	}
	n.serve()
	if n.doorman != nil {
		n.wg.Go(n.announceUsed)
	}
	return n.driver.Start(n.closed)
}

// makeVectors makes the two that the rounds work in; a trainer may bring them.
func (n *Node) makeVectors(d int) (err error) {
	if m, ok := n.cfg.Trainer.(VectorMaker); ok {
		if n.start, n.local, err = m.MakeVectors(d); err != nil {
			return &TrainerError{"vectors", err}
		}
		return nil
	}
	n.start, n.local = make([]float32, d), make([]float32, d)
	return nil
}

func (n *Node) openLedger(saved membership.Saved) (err error) {
	amnesiac := n.returns && saved.Boot == 1 && !n.cfg.Found
	if amnesiac {
		n.emit("run.searching", map[string]any{
			"run":    n.cfg.Spec.Name,
			"detail": "this peer was in the run before and its ledger.log is gone: it waits for the others and founds nothing (Found, --found, overrides)",
		})
	}
	ready := make(chan struct{}) // closed once there is a driver to deliver to
	deliver := func(from PeerID, b []byte) {
		if from == n.Self() { // an echo: gossip does not wait for us
			select {
			case <-ready:
				n.driver.Deliver(from, b)
			default:
			}
			return
		}
		select {
		case <-ready:
			n.driver.Deliver(from, b)
		case <-n.closed.Done():
		}
	}
	if n.transport, err = openTransport(n.closed, n.net, n.run, n.gossipConfig(saved.Boot), deliver); err != nil {
		return err
	}
	n.driver, err = membership.NewDriver(membership.DriverConfig{
		Store: n.store, Signer: n.net, Transport: n.transport, Worker: n.worker, Rules: n.spec.rules(n.run), Timing: n.ledgerTiming(),
		Plan: n.worker.params.Planner(), Verify: p2p.Verify, NeverFounds: amnesiac, PauseOnLoss: n.cfg.OnQuorumLoss == OnLossPause, Open: n.doorman == nil, Pin: n.cfg.Pin, Follow: n.cfg.Follow, Logger: n.log, OnEvent: n.ledgerEvent,
	})
	if err == nil {
		close(ready)
		n.meeting.introduce(n.driver.Incarnation())
		n.keepClose(peersOf(n.driver.View()))
		n.worker.standing = n.standing
		err = n.restoreOrders()
	}
	return err
}

// keepClose spares the members where connections, or what is kept of authors, must be cut down.
func (n *Node) keepClose(members []PeerID) {
	n.wasMember.add(members)
	n.net.Protect(members)
	n.transport.topic.Keep(members)
}

func (n *Node) newWorker() (*worker, error) {
	state, err := newState(n.spec)
	if err != nil {
		return nil, err
	}
	c, err := codec.New(n.spec.Codec)
	if err != nil {
		return nil, err
	}
	w := &worker{
		self: n.Self(), spec: n.spec, params: n.spec.params(), codec: c, outcome: codec.Outcome(c), frameBytes: codec.Outcome(c).EncodedSize(int(n.spec.Frame)),
		state: state, init: n.initial, every: n.cfg.CheckpointEvery * n.spec.Fragments, keepStates: n.cfg.KeepCheckpoints, stall: n.timing.stall, log: n.log, emit: n.emit, fatal: n.fail,
		gauges: &n.gauges, feedback: newFeedback(n.spec, c.Lossy()), relayed: n.net.Relayed,
	}
	w.mu.own = make(map[Root]contribution)
	if n.doorman != nil {
		w.keys = n.doorman
	}
	shape := checkpoint.Shape{Elements: n.spec.Layout.Elements(), Optimizer: len(state.outer.State())}
	if w.store, err = checkpoint.Open(n.dir.path("state"), checkpoint.Config{Shape: shape, FrameBytes: w.frameBytes, Logger: n.log, FS: n.cfg.disk}); err != nil {
		return nil, err
	}
	if w.engine, err = allreduce.New(allreduce.Config{
		Self: n.Self(), Run: n.run, Params: w.params, Transport: bulk{n.net, p2p.ProtocolExchange, n.cfg.streams}, Logger: n.log, Stall: n.timing.stall,
		Known: n.isMember,
	}); err != nil {
		return nil, err
	}
	w.client = statesync.NewClient(bulk{n.net, p2p.ProtocolState, n.cfg.streams}, statesync.Config{Timeout: n.timing.fetch, OnDrop: w.dropped, Logger: n.log})
	return w, nil
}

// initial writes the initial parameters of a run founded here.
func (n *Node) initial(ctx context.Context, dst []float32) error {
	switch {
	case n.cfg.InitFile != "":
		return readInitFile(n.cfg.InitFile, n.spec.Layout, dst)
	case n.cfg.Init != nil:
		return n.cfg.Init(dst)
	case n.cfg.Trainer != nil:
		err := n.cfg.Trainer.Init(ctx, dst)
		if err != nil && ctx.Err() == nil {
			err = &TrainerError{"init", err}
		}
		return err
	}
	return nil // zeros
}

// restore takes up the newest checkpoint that the chain certifies; the ledger has the outcomes since applied.
func (n *Node) restore() error {
	var from checkpoint.Checkpoint
	err := n.worker.state.replace(func(vectors [][]float32) (_ position, err error) {
		from, err = n.worker.store.LoadNewest(func(c checkpoint.Checkpoint) bool {
			root, ok := n.worker.certifiedState(c.Height)
			return ok && root == c.Root
		}, vectors...)
		return position{from.Height, n.worker.record(from.Height), from.Slot, from.Root}, err
	})
	if errors.Is(err, checkpoint.ErrNotHeld) {
		return nil // a new peer, or one that has to fetch the state
	}
	if err != nil {
		return err
	}
	at, _ := n.worker.state.position()
	n.log.Info("restored a checkpoint", "height", at.height, "slot", at.slot, "state_root", at.root)
	n.driver.Report(at.report())
	return nil
}

// serve lets other peers in: to the reduction, and to what they fetch.
func (n *Node) serve() {
	bulk{n.net, p2p.ProtocolExchange, n.cfg.streams}.handle(func(from PeerID, s wire.Stream) {
		if err := n.worker.engine.Accept(from, s); err != nil {
			n.log.Debug("exchange stream ended", "peer", from, "err", err)
		}
	})
	n.server = statesync.NewServer(n.worker.store, statesync.ServerConfig{
		Prefer: n.isMember, BytesPerSecond: n.cfg.StateBytesPerSecond, Busy: n.worker.reducing, Loose: n.worker.part, Logger: n.log,
		Quota: n.quota(),
	})
	bulk{n.net, p2p.ProtocolState, n.cfg.streams}.handle(n.server.Serve)
}

// quota bounds what newcomers get. Those of a private run are known.
func (n *Node) quota() statesync.Quota {
	if n.doorman != nil {
		return statesync.Quota{}
	}
	return statesync.Quota{States: n.cfg.NewcomerStates, Newcomers: n.cfg.SiteNewcomers, Exempt: n.wasMember.has, Site: n.net.Site}
}

// isMember says whether the newest record lists a peer.
func (n *Node) isMember(p PeerID) bool {
	return n.driver != nil && slot.Find(n.driver.View().Tip.Members, p) >= 0
}

// Self is this peer's ID.
func (n *Node) Self() PeerID { return n.net.ID() }

// Addrs are the multiaddrs that this peer listens on, each ending in /p2p/ID: others may bootstrap from them.
func (n *Node) Addrs() []string { return n.net.Addrs() }

// Spec is the run's settled spec.
func (n *Node) Spec() Spec { return n.spec }

// RunID is the hash of the run's spec.
func (n *Node) RunID() Root { return n.run }

package p2pdiloco

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/membership/statesync"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

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

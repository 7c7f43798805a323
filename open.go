package p2pdiloco

import (
	"crypto/rand"
	"fmt"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/node/admission"
	"github.com/p2pdiloco/p2pdiloco/internal/node/auditor"
	"github.com/p2pdiloco/p2pdiloco/internal/node/datadir"
	"github.com/p2pdiloco/p2pdiloco/internal/node/edge"
	"github.com/p2pdiloco/p2pdiloco/internal/node/replica"
	"github.com/p2pdiloco/p2pdiloco/internal/node/round"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/statesync"
	"github.com/p2pdiloco/p2pdiloco/membership/store"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// open starts everything that needs the spec: store, ledger, replica, rounds.
func (n *Node) open() error {
	lost, err := n.dir.NoteLostLedger()
	if err != nil {
		return err
	}
	reached, err := checkpoint.Reached(n.hooks.Disk, n.dir.Path(datadir.StateFolder))
	if err != nil {
		return err
	}
	ledger, err := store.Open(n.hooks.Disk, n.dir.Root, n.run, reached, rand.Reader, n.cfg.Logger)
	if err != nil {
		return err
	}
	n.store = ledger
	// A directory with a spec has a ledger. One that lacks it has lost it (see openLedger).
	if err := n.dir.SaveSpec(n.spec); err != nil {
		return err
	}
	saved, err := n.store.Load()
	if err != nil {
		return err
	}
	if err := n.openLedger(saved, lost); err != nil {
		return err
	}
	if err := n.openReplica(); err != nil {
		return err
	}
	if err := n.openRounds(); err != nil {
		return err
	}
	if n.guard != nil {
		n.life.Go(func() {
			n.guard.Announce(n.life.Context(), announceAgain*n.timing.Ledger.Alive, n.edge.PublishTokens)
		})
	}
	n.showInside()
	held := n.driver.View()
	n.life.Go(func() { n.follow(held) })
	n.life.Go(n.tellMetrics)
	return n.driver.Start(n.life.Context(), n.replica)
}

// openLedger opens the ledger, and the way of its messages. The log may have been lost.
func (n *Node) openLedger(saved wire.Saved, lost bool) (err error) {
	if saved.Height > 0 {
		lost = false
		if n.dir.Has(datadir.LostFile) { // there is a chain again
			if err := n.dir.FS.Remove(n.dir.Path(datadir.LostFile)); err != nil {
				return err
			}
		}
	}
	foundsNothing := n.foundsNothing(lost)
	if foundsNothing != "" && saved.Height == 0 {
		n.emit("run.searching", map[string]any{"run": n.cfg.Spec.Name, "detail": foundsNothing})
	}
	n.edge = edge.NewLedger(edge.LedgerConfig{
		Network: n.net, Run: n.run, Boot: saved.Boot, Heartbeat: n.timing.Heartbeat, Guard: n.guard,
		Logger: n.cfg.Logger,
	})
	n.ledger = &ledgerEvents{run: n.spec.Name, id: n.run, params: replica.Reduction(n.spec), emit: n.emit}
	n.driver, err = membership.NewDriver(n.hooks.WrapLedger(membership.DriverConfig{
		Store: n.store, Signer: n.net, Transport: n.edge, Rules: ledgerRules(n.spec, n.run),
		Timing: n.ledgerTiming(),
		Plan:   replica.Reduction(n.spec).Planner(), Verify: p2p.Verify, NeverFounds: foundsNothing != "",
		PauseOnLoss: n.cfg.OnQuorumLoss == OnLossPause, Open: n.guard == nil, Pin: n.cfg.Pin, Follow: n.cfg.Follow,
		Logger: n.cfg.Logger, OnEvent: n.ledger.Tell,
	}))
	if err != nil {
		return err
	}
	if err := n.edge.Open(n.life.Context(), n.hooks.WrapDeliver(n.driver.Deliver)); err != nil {
		return err
	}
	if at := n.driver.Access(n.Self()); at.Removed {
		n.emit("peer.removed", map[string]any{
			"about": n.Self(), "height": at.By.Height, "record": at.By.Record, "detail": at.RemovalText(n.Self()),
		})
	}
	n.formation.Introduce(n.driver.Incarnation(), func() (slot, members uint64, alone, in bool) {
		v := n.driver.View()
		return v.Tip.Slot, uint64(len(v.Peers())), n.driver.Alone(), v.IsMember
	})
	n.keepClose(n.driver.View())
	n.motions, err = admission.NewMotions(n.driver, n.files())
	return err
}

func (n *Node) keepClose(v membership.View) { n.edge.KeepClose(v.Peers(), v.Barred()) }

// openReplica opens the model that this peer holds, and lets other peers in: to the reduction, and
// to what they fetch.
func (n *Node) openReplica() (err error) {
	bulk := edge.Bulk{Network: n.net, Replace: n.hooks.Streams}
	exchange, states, audits := bulk, bulk, bulk
	exchange.Protocol, states.Protocol, audits.Protocol = p2p.ProtocolExchange, p2p.ProtocolState, p2p.ProtocolAudit
	cfg := replica.Config{
		Self: n.Self(), Run: replica.RunOf(n.spec, n.run), Ledger: n.driver,
		Dir: n.dir.Path(datadir.StateFolder), FS: n.hooks.Disk,
		Every: n.cfg.CheckpointEvery * n.spec.Fragments, Keep: n.cfg.KeepCheckpoints, Init: n.initial,
		Exchange: exchange, Donors: states, Relayed: n.net.Relayed, Stall: n.timing.Stall, Fetch: n.timing.Fetch,
		Serve: statesync.ServerConfig{BytesPerSecond: n.cfg.StateBytesPerSecond, Quota: n.quota()},
		Kept:  n.dir.Kept, Fatal: n.life.Fail, Emit: n.emit, Logger: n.cfg.Logger, Offered: n.hooks.Offer,
		Claims: n.hooks.Claims, Reduced: n.hooks.Reduced, Passes: n.hooks.Passes,
	}
	cfg.Auditor = func(shown replica.Shown) (replica.Auditor, error) {
		a, err := auditor.New(auditor.Config{
			Self: cfg.Self, Params: cfg.Run.Params, Samples: cfg.Run.AuditSamples, Streams: audits,
			Own: shown.Own, Leaves: shown.Leaves, Connected: n.net.InReach, Member: shown.Member,
			Segment: func(root slot.Root) (auditor.Segment, error) { return shown.Segment(root) },
			Timeout: max(n.timing.Stall, n.timing.Ledger.Patience) / 2, Logger: n.cfg.Logger,
		})
		n.auditor = a
		return a, err
	}
	if replica.MapsState(n.spec) {
		cfg.Scratch = n.dir.Root
	}
	if n.guard != nil {
		cfg.Keys = n.guard
	}
	if n.replica, err = replica.Open(cfg); err != nil {
		return err
	}
	if at, held := n.replica.Position(); held {
		n.cfg.Logger.Info("restored a checkpoint", "height", at.Height, "slot", at.Slot, "state_root", at.Root)
		n.driver.Report(at.Report())
	}
	exchange.Handle(n.replica.AcceptExchange)
	states.Handle(n.replica.ServeState)
	audits.Handle(n.auditor.Serve)
	return nil
}

// openRounds makes the loop of the rounds.
func (n *Node) openRounds() (err error) {
	cfg := round.Config{
		Spec: n.spec, Self: n.Self(), Trainer: n.cfg.Trainer, Ledger: n.driver, Replica: n.replica, Life: n.life,
		Emit: n.emit, FS: n.hooks.Disk, Logger: n.cfg.Logger,
	}
	if !n.dir.Temporary {
		cfg.StateDir = n.dir.Path(datadir.TrainerFolder)
	}
	n.rounds, err = round.New(cfg)
	return err
}

// quota bounds what newcomers get. The newcomers of a private run were admitted: they have no
// bound.
func (n *Node) quota() statesync.Quota {
	if n.guard != nil {
		return statesync.Quota{}
	}
	return statesync.Quota{
		States: n.cfg.NewcomerStates, Newcomers: n.cfg.SiteNewcomers, Exempt: n.edge.WasMember,
		Site: n.net.Site,
	}
}

// showInside gives the tests' hooks what they may see of the node.
func (n *Node) showInside() {
	if n.hooks.Opened != nil {
		n.hooks.Opened(edge.Inside{
			Ledger: n.driver, Topic: n.edge.Topic(), Guard: n.guard, Quota: n.quota(), Anchor: n.replica.Damage,
		})
	}
}

// follow does what the newest view of the ledger asks of the node, until the node closes. For the
// view last all has been done. (Events do not steer: OnEvent.)
func (n *Node) follow(last membership.View) {
	for !n.life.Over() {
		v, err := n.driver.WaitView(n.life.Context(), func(v membership.View) bool { return concerns(last, v) })
		if err != nil {
			return
		}
		n.turn(last, v)
		last = v
	}
}

// concerns says whether follow has something to do after a view that came after last.
func concerns(last, v membership.View) bool {
	return v.Expelled || v.Cloned != "" || v.IsMember != last.IsMember || v.Tip.Height != last.Tip.Height ||
		v.Ending != last.Ending ||
		!slices.Equal(v.Peers(), last.Peers())
}

// turn does what a view asks for that came after last.
func (n *Node) turn(last, v membership.View) {
	switch {
	case v.Cloned != "":
		n.life.Fail(fmt.Errorf("%w: %s", ErrCloned, v.Cloned))
		return
	case v.Expelled:
		n.life.Fail(fmt.Errorf("%w %s", ErrRemoved, n.driver.Access(n.Self()).RemovalText(n.Self())))
		return
	}
	// Members may have come and gone between two views.
	for height := last.Tip.Height + 1; height < v.Tip.Height; height++ {
		if c, ok := n.driver.Record(height); ok {
			for _, m := range c.Record.Members {
				n.edge.AddMembers(m.Peer)
			}
		}
	}
	if !slices.Equal(v.Peers(), last.Peers()) || !slices.Equal(v.Barred(), last.Barred()) {
		n.keepClose(v)
	}
	if v.IsMember && !last.IsMember {
		if err := n.dir.SavePreset(n.formation.Preset()); err != nil {
			n.cfg.Logger.Warn("the run's preset is not remembered", "err", err)
		}
	}
	if v.Ending != membership.EndsNot && last.Ending == membership.EndsNot {
		if n.savesAtEnd() {
			n.replica.Save() // what can be exported from now on
		}
	}
	n.tellVote(last.Tip, v.Tip)
}

// tellVote says how far this peer is on its way to a vote, when that changes. Before the first slot
// is done, votes are given to the members that the run starts with.
func (n *Node) tellVote(last, tip slot.Record) {
	if tip.Slot == 0 {
		return
	}
	ledger := ledgerRules(n.spec, n.run)
	now, before := voteOf(ledger, tip, n.Self()), voteOf(ledger, last, n.Self())
	switch {
	case now != nil && (before == nil || *now != *before):
		n.emit("vote.progress", map[string]any{
			"slot": tip.Slot, "contributions": now.Contributions, "needed": now.Needed, "detail": now.Text,
		})
	case now == nil && before != nil && slot.Find(tip.Electors(), n.Self()) >= 0:
		n.emit("vote.earned", map[string]any{"slot": tip.Slot, "detail": "this peer has a vote from now on"})
	}
}

// ledgerRules are a settled spec's values that the ledger needs.
func ledgerRules(s spec.Spec, run slot.Root) chain.Rules {
	ahead, partSteps := s.DataAssignment()
	return chain.Rules{
		Byzantine: s.Byzantine(), Founders: s.Founders, MaxWeightRatio: s.WeightRatio(),
		MaxElectors: int(s.MaxElectors), NewcomerShare: s.NewcomerShare, TermCap: s.TermCap,
		Ahead: ahead, PartSteps: partSteps, Run: run, InitRoot: replica.FixedRoot(s), LastSlot: s.LastSlot(),
		StartPeers: int(s.StartPeers), MinPeers: int(s.MinPeers),
		MaxStaleness: s.MaxStaleness(), MaxWeight: s.MaxWeight, Fragments: s.FragmentElements(),
		Frame: s.Frame,
		Rings: replica.Reduction(s).Rings(), Private: s.Access == spec.AccessPrivate,
		AuditSamples: s.Samples(), CheckProof: auditor.Checker{Params: replica.Reduction(s)},
		Pace: chain.PaceRules{InnerSteps: s.InnerSteps, TrimPermille: s.TrimPermille},
	}
}

package replica

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/figures"
	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/membership/statesync"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// Ledger is the part of the ledger that a replica reads. A membership.Driver implements it.
type Ledger interface {
	Record(height uint64) (wire.Commit, bool)
	View() membership.View
	Access(p slot.PeerID) membership.PeerAccess
	Report(r membership.Report)
}

// Config says what a Replica works with. All fields are required unless a comment says otherwise.
type Config struct {
	Self   slot.PeerID
	Run    Run
	Ledger Ledger
	Dir    string  // where checkpoints and outcomes are kept
	FS     disk.FS // disk.OS if nil
	// folder of the anchor and the optimizer's vectors, which lie in files without a name, so that
	// the system may take their memory for others; empty: they are in memory alone
	Scratch string
	Every   uint64 // slots between checkpoints
	Keep    int    // checkpoints that are kept, with all outcomes since the oldest of them

	// Init writes the initial parameters, D elements, of a run that is founded here. An error
	// marked by Permanent ends the node.
	Init func(ctx context.Context, dst []float32) error
	Keys Keyring // of a private run; nil for an open one

	Exchange allreduce.Transport         // streams of the all-reduce
	Donors   statesync.Opener            // streams to peers that have states and outcomes
	Relayed  func() map[slot.PeerID]bool // peers connected now: true where a relay is between
	// Auditor makes what checks outcomes, from what it may see here
	Auditor func(Shown) (Auditor, error)
	// a stream of the reduction without any byte for so long is lost
	Stall time.Duration
	Fetch time.Duration // a donor without progress for so long is replaced
	// bounds of what others get; Prefer, Busy and Loose are set here
	Serve statesync.ServerConfig

	Kept   func() error                             // nil: the peer's promises are on its disk
	Fatal  func(error)                              // ends the node
	Emit   func(name string, fields map[string]any) // takes an event; must not call the replica
	Logger *slog.Logger

	// Offered is for tests of whole nodes: it takes each contribution that is kept, with its slot,
	// and may change it. Usually nil.
	Offered func(slot uint64, c *allreduce.Contribution)
	// Claims is for them, too: it returns the weight to claim for one, given the true weight.
	// Usually nil.
	Claims func(slot, weight uint64) uint64
	// Reduced is for them, too: see allreduce.Config.
	Reduced func(slot uint64, frame int, values []float32)
	// Passes is for them, too: whether outcomes of a slot are not checked. Usually nil.
	Passes func(slot uint64) bool
}

// Replica is one peer's copy of the model. Its methods may be called from any goroutine.
type Replica struct {
	cfg    Config
	log    *slog.Logger
	engine *allreduce.Engine
	server *statesync.Server

	model         *model
	contributions *contributions
	debtFile      *debtFile
	reductions    *reductions
	outcomes      *outcomes
	fetcher       *fetcher
	auditor       Auditor
	figures       *figures.Follower
	jobs          jobs
	faults        faults
	stats         atomic.Pointer[Stats] // newest; nil: none
	// held from the outer step to the end of its slot, and while a checkpoint is written
	border  sync.Mutex
	saving  sync.Mutex // held until a checkpoint is on disk; taken before border
	skipped int        // checkpoints in a row; the state job's
}

// Open makes a replica and restores the newest checkpoint in Dir that the chain certifies. The
// ledger has the outcomes since then applied.
func Open(cfg Config) (*Replica, error) {
	r := &Replica{
		cfg: cfg, log: cfg.Logger,
	}
	var err error
	if r.contributions, err = newContributions(cfg.Self, cfg.Run); err != nil {
		return nil, err
	}
	r.model, err = openModel(cfg.Run, cfg.Dir, cfg.Scratch, checkpoint.Config{Logger: cfg.Logger, FS: cfg.FS},
		cfg.Ledger.Record)
	if err != nil {
		return nil, err
	}
	if r.engine, err = allreduce.New(allreduce.Config{
		Self: cfg.Self, Run: cfg.Run.ID, Params: cfg.Run.Params, Transport: cfg.Exchange, Logger: cfg.Logger,
		Stall: cfg.Stall, Known: r.isMember, Reduced: cfg.Reduced,
	}); err != nil {
		return nil, err
	}
	r.reductions = &reductions{engine: r.engine, params: cfg.Run.Params, relayed: cfg.Relayed, log: cfg.Logger}
	r.fetcher = newFetcher(cfg.Donors, statesync.Config{Timeout: cfg.Fetch, Logger: cfg.Logger}, cfg.Emit)
	r.figures = figures.New(cfg.Self, cfg.Run.Params, func() *allreduce.Reduction {
		now, _ := r.reductions.running()
		return now
	}, cfg.Emit)
	r.outcomes = &outcomes{
		self: cfg.Self, model: r.model, reductions: r.reductions, client: r.fetcher.client, stall: cfg.Stall,
		dropped: r.fetcher.dropped,
	}
	if r.auditor, err = cfg.Auditor(r.shown()); err != nil {
		return nil, err
	}
	cfg.Serve.Prefer, cfg.Serve.Busy, cfg.Serve.Loose = r.isMember, r.reductions.busy, r.outcomes.part
	cfg.Serve.Logger = cfg.Logger
	r.server = statesync.NewServer(r.model.store, cfg.Serve)
	err = r.model.restore(func(checkpoint.Checkpoint) bool { return true })
	// a new peer, or a peer that has to fetch the state
	if err != nil && !errors.Is(err, checkpoint.ErrNotHeld) {
		return nil, errors.Join(err, r.Close(false))
	}
	at, held := r.Position()
	if r.debtFile, err = openDebtFile(cfg, r.contributions.feedback); err != nil {
		return nil, errors.Join(err, r.Close(false))
	}
	if held {
		r.debtFile.reached(at)
	}
	return r, nil
}

// Position returns the position of the state held, if there is one.
func (r *Replica) Position() (Position, bool) { return r.model.state.position() }

// Follow takes dst, D elements, from an edition of the anchor to the one held, which it returns.
// Where none is held, since it could not be read and is fetched again, dst stays as it was.
func (r *Replica) Follow(dst []float32, from Edition) Edition {
	return r.model.state.copyOnward(dst, from)
}

// Fragment returns the part of the vector that a slot updates.
func (r *Replica) Fragment(slotNumber uint64) slot.Fragment {
	return r.model.state.fragment(slotNumber)
}

// Encode puts a pseudo-gradient, which is that of the fragment of the slot after base, into the
// run's codec. Where PaysDebts, the contribution before must be settled first. gradient is not
// kept.
func (r *Replica) Encode(base uint64, gradient allreduce.Values) (Contribution, error) {
	fragment := slot.FragmentOf(base+1, uint64(len(r.cfg.Run.Fragments)))
	return r.contributions.encode(base, int(fragment), gradient)
}

// Claim returns the weight to offer for a contribution to a slot, given the true one: it is that
// one but in tests.
func (r *Replica) Claim(slotNumber, weight uint64) uint64 {
	if r.cfg.Claims != nil {
		return r.cfg.Claims(slotNumber, weight)
	}
	return weight
}

// PaysDebts says whether what encoding loses goes into later contributions (feedback): then a
// contribution is encoded once it is known what became of the one before.
func (r *Replica) PaysDebts() bool { return r.contributions.feedback != nil }

// Keep holds a contribution, which is about to be offered, until a record settles it.
func (r *Replica) Keep(c Contribution) {
	if r.cfg.Offered != nil {
		r.cfg.Offered(c.Base+1, c.Encoded)
	}
	r.contributions.hold(c)
}

// Params returns the run's values that the all-reduce uses.
func (r *Replica) Params() allreduce.Params { return r.cfg.Run.Params }

// Stats returns measures of the slots applied.
func (r *Replica) Stats() (s Stats) {
	if newest := r.stats.Load(); newest != nil {
		s = *newest
	}
	return s
}

// Rates returns how fast this peer could send to each other one in the reductions before the
// newest, in kB/s; no entry where too little was sent to tell.
func (r *Replica) Rates() map[slot.PeerID]uint32 { return r.reductions.measured() }

// Contributed returns what is known of what each member contributes.
func (r *Replica) Contributed() map[slot.PeerID]figures.Member { return r.figures.Members() }

// Fetching returns how far the fetch of a state is, nil if there is none.
func (r *Replica) Fetching() *FetchStatus { return r.fetcher.status() }

// Damage changes the anchor, as bad memory does. It is for tests of whole nodes, which must find
// out.
func (r *Replica) Damage(change func(anchor []float32)) { r.model.state.damage(change) }

// AcceptExchange takes in a stream of the all-reduce that a peer has opened.
func (r *Replica) AcceptExchange(from slot.PeerID, s canonical.Stream) {
	if err := r.engine.Accept(from, s); err != nil {
		r.log.Debug("exchange stream ended", "peer", from, "err", err)
	}
}

// ServeState serves states and outcomes on a stream that a peer has opened.
func (r *Replica) ServeState(from slot.PeerID, s canonical.Stream) { r.server.Serve(from, s) }

// Close ends all work, and keeps the state that is held in a checkpoint if keep is set. The driver
// must have been closed: the contexts of the jobs have ended with it.
func (r *Replica) Close(keep bool) error {
	_ = r.engine.Close()
	r.jobs.wait()
	err := r.server.Close()
	if keep {
		r.Save()
		err = errors.Join(err, r.model.store.Close(), r.debtFile.close())
	}
	r.model.close()
	return err
}

// isMember says whether the newest record lists a peer.
func (r *Replica) isMember(p slot.PeerID) bool {
	return slot.Find(r.cfg.Ledger.View().Tip.Members, p) >= 0
}

// donors returns the peers known to hold states when the work was given, and the present members,
// since others may have joined meanwhile.
func (r *Replica) donors(from []slot.PeerID) []slot.PeerID {
	all := slices.Clone(from)
	for _, m := range r.cfg.Ledger.View().Tip.Members {
		if m.Peer != r.cfg.Self && !slices.Contains(all, m.Peer) {
			all = append(all, m.Peer)
		}
	}
	return all
}

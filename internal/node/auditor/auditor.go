package auditor

import (
	"context"
	"crypto/rand"
	"log/slog"
	randv2 "math/rand/v2"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// Streams opens the streams of audits.
type Streams interface {
	Open(ctx context.Context, peer slot.PeerID) (wire.Stream, error)
}

// Segment is a reduced segment that is held. A checkpoint.SegmentReader implements it.
type Segment interface {
	Hashes() ([]slot.Root, error)
	Frame(dst []byte, k int64, hashes []slot.Root) ([]byte, error)
	ReadAt(dst []byte, at int64) (int, error) // not verified
	Close() error
}

// Config says what an Auditor works with. All fields are required unless a comment says otherwise.
type Config struct {
	Self    slot.PeerID
	Params  allreduce.Params
	Samples int // of each segment, that the electors of a quorum check together; 0: none
	Streams Streams
	// this peer's contribution with a root; nil: it is not held any more
	Own func(root slot.Root) (own *allreduce.Contribution, done func())
	// what a contributor has committed to, where the reduction of this slot has shown it
	Leaves  func(o slot.Offer) (leaves []slot.FrameLeaf, ok bool)
	Segment func(root slot.Root) (Segment, error)
	// whether a peer may ask: a member may
	Member func(slot.PeerID) bool
	// whether there is a way to a peer now, by a connection or through another member: contributors
	// have had one lately
	Connected func(slot.PeerID) bool
	Timeout   time.Duration // for the next answer of a peer
	Logger    *slog.Logger
}

// Auditor checks outcomes. Its methods may be called from any goroutine.
type Auditor struct {
	cfg   Config
	in    codec.Codec // of contributions
	out   codec.Codec // of outcomes
	taken sampling
	now   func() time.Time
	begun struct {
		sync.Mutex
		of map[slot.Root]*job // audits of the open height, by record
	}
}

// New makes an auditor.
func New(cfg Config) (*Auditor, error) {
	in, out, err := cfg.Params.Codecs()
	if err != nil {
		return nil, err
	}
	return &Auditor{cfg: cfg, in: in, out: out, now: time.Now}, nil
}

// Audit checks the outcome of a draft, which is held, and returns what it found. It fails where it
// could not look: the outcome cannot be read, ctx has ended, or this process stood still while it
// waited for what it was not shown.
func (a *Auditor) Audit(ctx context.Context, w membership.WorkAudit) (membership.ReportAudited, []membership.Report,
	error,
) {
	watch := a.watch()
	defer watch.end()
	au, err := a.begin(w)
	if err != nil {
		return au.report(), nil, err
	}
	beyond := make(chan error, 1)
	go func() { beyond <- au.addSuspicious() }()
	au.gather(ctx)
	if err = <-beyond; err == nil {
		au.gather(ctx) // of the frames beyond their bounds
		err = au.compare(ctx)
	}
	if err == nil {
		err = ctx.Err()
	}
	if watch.end() && au.forgive() && err == nil {
		err = errStoodStill
	}
	return au.report(), au.falseOffers, err
}

// mostBegun is how many records of a height there are audits of.
const mostBegun = 8

// begin returns the audit of a record: the one before goes on with its samples, and asks for what
// was not shown.
func (a *Auditor) begin(w membership.WorkAudit) (*job, error) {
	a.begun.Lock()
	defer a.begun.Unlock()
	if au := a.begun.of[w.Record]; au != nil {
		au.work, au.found, au.falseOffers = w, nil, nil
		clear(au.unshown)
		return au, nil
	}
	au := newAudit(a, w)
	if err := au.collect(); err != nil {
		return au, err
	}
	if len(a.begun.of) >= mostBegun || a.begun.of == nil {
		a.begun.of = map[slot.Root]*job{}
	}
	a.begun.of[w.Record] = au
	return au, nil
}

// Decided forgets the height that is decided.
func (a *Auditor) Decided() {
	a.begun.Lock()
	defer a.begun.Unlock()
	clear(a.begun.of)
}

// secret makes a source of samples that nobody else can guess.
func secret() *randv2.Rand {
	var seed [32]byte
	_, _ = rand.Read(seed[:]) // it never fails
	return randv2.New(randv2.NewChaCha8(seed))
}

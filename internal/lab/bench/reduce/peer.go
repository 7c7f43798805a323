package reduce

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
	"github.com/p2pdiloco/p2pdiloco/internal/machine"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

const (
	connectTimeout = time.Minute
	roundTimeout   = 5 * time.Minute
)

// peer is one process of the benchmark.
type peer struct {
	Case
	index   int
	codec   codec.Codec
	net     *p2p.Network
	engine  *allreduce.Engine
	own     *allreduce.Contribution
	plan    slot.Plan
	sink    *sink
	running *allreduce.Reduction
	cpu     float64 // at the start of the round
	profile bench.Profile
}

// Serve is a peer's process: it carries out the orders on in until that ends.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	p := &peer{}
	defer p.close()
	orders, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var o order
		err := orders.Decode(&o)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("order: %w", err)
		}
		a, err := p.obey(ctx, o)
		if err != nil {
			a.Error = err.Error()
		}
		if err := answers.Encode(a); err != nil {
			return err
		}
	}
}

func (p *peer) obey(ctx context.Context, o order) (answer, error) {
	switch o.Op {
	case opStart:
		return p.start(ctx, o)
	case opPrepare:
		return p.prepare(ctx, o)
	case opPlan:
		return answer{}, p.makePlan(o)
	case opGo:
		return p.reduce(ctx, o)
	case opEnd:
		return p.end(o)
	case opFinish:
		return answer{Peak: bench.PeakMemory()}, p.profile.End()
	default:
		return answer{}, fmt.Errorf("order %q is not known", o.Op)
	}
}

func (p *peer) start(ctx context.Context, o order) (a answer, err error) {
	p.Case, p.index = o.Case, o.Index
	p.profile.Path = o.Profile
	if p.codec, err = codec.New(p.Codec); err != nil {
		return a, err
	}
	if p.net, err = p2p.New(ctx, p.network(o)); err != nil {
		return a, err
	}
	p.sink = &sink{failed: make(chan error, 1)}
	cfg := allreduce.Config{Self: p.net.ID(), Run: slot.Hash([]byte("bench")), Params: p.params(), Transport: p}
	if p.engine, err = allreduce.New(cfg); err != nil {
		return a, err
	}
	p.net.Handle(p2p.ProtocolExchange, func(from slot.PeerID, s wire.Stream) { _ = p.engine.Accept(from, s) })
	return answer{ID: p.net.ID().String(), Addrs: p.net.Addrs()}, nil
}

// network is the configuration of the peer's network. Only addresses of the transport that is
// measured are listened on.
func (p *peer) network(o order) p2p.Config {
	cfg := p2p.LAN()
	// a machine that has too much to do looks like a silent peer
	cfg.Listen, cfg.Bootstrap, cfg.Pulse = o.Listen, o.Bootstrap, time.Minute
	cfg.Security, cfg.Transports = p.Security, []string{p.Transport}
	return cfg
}

// Open implements allreduce.Transport as the root package does.
func (p *peer) Open(ctx context.Context, to slot.PeerID) (wire.Stream, error) {
	return p.net.OpenBulk(ctx, to, p2p.ProtocolExchange)
}

// prepare makes the contribution, and waits until all others are connected.
func (p *peer) prepare(ctx context.Context, o order) (a answer, err error) {
	ids := make([]slot.PeerID, len(o.IDs))
	for i, text := range o.IDs {
		if ids[i], err = slot.ParsePeerID(text); err != nil {
			return a, err
		}
	}
	p.plan.Offers = make([]slot.Offer, len(ids))
	for i, id := range ids {
		p.plan.Offers[i].Peer = id
	}
	p.net.Protect(ids)
	machine.Frugal(p.Elements) // as a node does
	data := p.encoded(p.codec, p.index)
	began := time.Now()
	if p.own, err = allreduce.Commit(p.params(), 0, p.net.ID(), data); err != nil {
		return a, err
	}
	a.Commit, a.Root = time.Since(began).Seconds(), p.own.Root().String()
	a.NormSq = p.own.NormSq()
	cpu := bench.CPUSeconds()
	slot.FrameHashes(data, p.codec.EncodedSize(int(p.frame())))
	a.Hash = (bench.CPUSeconds() - cpu) / float64(len(data)) * 1e9
	return a, p.awaitPeers(ctx, ids)
}

func (p *peer) awaitPeers(ctx context.Context, ids []slot.PeerID) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		connected := p.net.Peers()
		missing := slices.DeleteFunc(slices.Clone(ids),
			func(id slot.PeerID) bool { return id == p.net.ID() || slices.Contains(connected, id) })
		if len(missing) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d peers are not connected: %w", len(missing), len(ids)-1, ctx.Err())
		}
	}
}

// makePlan makes the plan of all rounds, without the fields in which they differ.
func (p *peer) makePlan(o order) error {
	if n := len(p.plan.Offers); len(o.Roots) != n || len(o.Norms) != n {
		return fmt.Errorf("%d roots and %d norms of %d peers", len(o.Roots), len(o.Norms), n)
	}
	p.plan.Slot = 1
	for i := range p.plan.Offers {
		offer := &p.plan.Offers[i]
		offer.Slot, offer.Seq, offer.Weight, offer.NormSq = 1, 1, 1, o.Norms[i]
		if err := offer.Root.UnmarshalText([]byte(o.Roots[i])); err != nil {
			return err
		}
	}
	slices.SortFunc(p.plan.Offers, func(a, b slot.Offer) int {
		if a.Peer < b.Peer {
			return -1
		}
		return 1
	})
	p.plan.Pieces, p.plan.Ring = p.params().Planner()(p.plan, slot.Links{})
	return nil
}

// reduce is one round.
func (p *peer) reduce(ctx context.Context, o order) (a answer, err error) {
	p.plan.Height, p.plan.Opened.Height = o.Round, o.Round
	if o.Measured {
		if err := p.profile.Begin(); err != nil {
			return a, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	p.cpu = bench.CPUSeconds()
	began := time.Now()
	// The reduction outlives the call: others may still need its bytes. It ends with Release.
	if p.running, err = p.engine.Start(context.WithoutCancel(ctx), p.plan, p.own, p.sink); err != nil {
		return a, err
	}
	select {
	case <-p.running.Complete():
		return answer{Seconds: time.Since(began).Seconds()}, nil
	case err := <-p.sink.failed:
		return a, err
	case <-ctx.Done():
		return a, fmt.Errorf("the reduction did not end: %w", ctx.Err())
	}
}

// end is when all peers have the outcome.
func (p *peer) end(o order) (a answer, err error) {
	if p.running == nil {
		return a, errors.New("there was no round")
	}
	a.CPU = bench.CPUSeconds() - p.cpu
	a.Sent, _ = p.running.Traffic()
	result, ok := p.running.Result(slot.Range{End: p.Elements})
	if !ok {
		return a, errors.New("the outcome is not complete")
	}
	a.Digest = slot.Hash(result).String()
	if o.Check {
		a.Worst, a.Allowed, err = p.checkShare(result)
	}
	p.running.Release()
	return a, err
}

// checkShare compares this peer's share of frames with the reference.
func (p *peer) checkShare(result []byte) (worst, allowed float64, err error) {
	r := newReference(p.Case, p.codec)
	size := r.outcome.EncodedSize(int(p.frame()))
	for f := uint64(p.index); f*p.frame() < p.Elements; f += uint64(p.Members) {
		at := int(f) * size
		w, a, err := r.check(result[at:min(at+size, len(result))], f*p.frame())
		if err != nil {
			return 0, 0, err
		}
		if w > a {
			return w, a, fmt.Errorf("frame %d of the outcome is %g off the reference where %g is allowed", f, w, a)
		}
		worst, allowed = max(worst, w), max(allowed, a)
	}
	return worst, allowed, nil
}

func (p *peer) close() {
	if p.engine != nil {
		_ = p.engine.Close()
	}
	if p.net != nil {
		_ = p.net.Close()
	}
}

// sink takes the first failure. A peer that is done may be gone before others are.
type sink struct{ failed chan error }

func (s *sink) Within(set slot.Bitmap) slot.Bitmap                   { return set }
func (s *sink) SegmentDone(slot.Segment, slot.Root, allreduce.Alike) {}
func (s *sink) Progress(uint64, uint64)                              {}
func (s *sink) Lost(peer slot.PeerID, reason allreduce.Reason, err error) {
	select {
	case s.failed <- fmt.Errorf("peer %s was lost (%s): %w", peer.Short(), reason, err):
	default:
	}
}

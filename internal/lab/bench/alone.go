package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/node/replica"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// alone is a peer without a ledger. It ends with its process.
type alone struct {
	ctx     context.Context // ends with the first failure
	fail    context.CancelCauseFunc
	params  allreduce.Params
	net     *p2p.Network
	engine  *allreduce.Engine
	own     *allreduce.Contribution
	plan    slot.Plan
	running *allreduce.Reduction
	cpu     float64 // seconds that were used before the reduction
}

// Offered is the contribution of a peer to all reductions, and where it listens.
type Offered struct {
	Offer slot.Offer
	Addrs []string
}

// Start makes the network and the contribution.
func (p *alone) Start(o Order, offered *Offered) (err error) {
	p.params = replica.Reduction(o.Case.spec(o.Run, o.Slots))
	cfg := p2p.LAN()
	// a machine that has too much to do looks like a silent peer
	cfg.Listen, cfg.Pulse = o.Listen, time.Minute
	if p.net, err = p2p.New(p.ctx, cfg); err != nil {
		return err
	}
	if p.engine, err = allreduce.New(allreduce.Config{
		Self: p.net.ID(), Run: slot.Hash([]byte(o.Run)), Params: p.params, Transport: p,
	}); err != nil {
		return err
	}
	p.net.Handle(p2p.ProtocolExchange, func(from slot.PeerID, s wire.Stream) { _ = p.engine.Accept(from, s) })
	replica.LimitGarbage(o.Case.Bytes, 2*o.Case.Bytes) // as a node does: contribution and outcome
	values := allreduce.Vector(noise(o.Case.elements(), uint64(o.Number)))
	if p.own, err = allreduce.Encode(p.params, 0, p.net.ID(), values, nil); err != nil {
		return err
	}
	*offered = Offered{
		slot.Offer{Peer: p.net.ID(), Slot: 1, Seq: 1, Weight: 1, Root: p.own.Root(), NormSq: p.own.NormSq()},
		p.net.Addrs(),
	}
	return nil
}

// Open implements allreduce.Transport as the root package does.
func (p *alone) Open(ctx context.Context, to slot.PeerID) (wire.Stream, error) {
	return p.net.OpenBulk(ctx, to, p2p.ProtocolExchange)
}

// Plan is that of all reductions, and where all peers listen.
type Plan struct {
	slot.Plan
	Addrs []string
}

// Connect waits until all other peers of the plan are connected.
func (p *alone) Connect(plan Plan, _ *struct{}) error {
	p.plan = plan.Plan
	var all []slot.PeerID
	for _, offer := range plan.Offers {
		all = append(all, offer.Peer)
	}
	p.net.Protect(all)
	err := p.net.AddBootstrap(plan.Addrs)
	for until := time.Now().Add(time.Minute); err == nil && len(p.net.Peers()) < len(all)-1; {
		if time.Now().After(until) {
			return fmt.Errorf("only %d of %d peers can be reached", len(p.net.Peers()), len(all)-1)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// Reduce reduces once, in so many seconds.
func (p *alone) Reduce(height uint64, seconds *float64) (err error) {
	p.plan.Height, p.plan.Opened.Height = height, height
	began := time.Now()
	p.cpu = CPUSeconds()
	if p.running, err = p.engine.Start(p.ctx, p.plan, p.own, p); err != nil {
		return err
	}
	select {
	case <-p.running.Complete():
		*seconds = time.Since(began).Seconds()
		return nil
	case <-p.ctx.Done():
		return context.Cause(p.ctx)
	}
}

// Reduced is what a reduction took of a peer.
type Reduced struct {
	CPU     float64   // seconds
	Sent    uint64    // bytes of streams
	Memory  float64   // most bytes that were resident since the start; 0: the system does not say
	Outcome slot.Root // hash of it
}

// End ends a reduction, when all peers have the outcome.
func (p *alone) End(_ uint64, r *Reduced) error {
	*r = Reduced{CPU: CPUSeconds() - p.cpu, Memory: PeakMemory()}
	r.Sent, _ = p.running.Traffic()
	outcome, done := p.running.Hold([]slot.Range{{End: p.params.Fragments[0]}})
	whole := outcome[0].Bytes
	r.Outcome = slot.Hash(whole)
	done()
	if whole == nil {
		return errors.New("the outcome is not complete")
	}
	p.running.Release()
	return nil
}

// Within and the methods that follow are what a reduction tells.
func (p *alone) Within(set slot.Bitmap) slot.Bitmap { return set }
func (p *alone) SegmentDone(slot.Segment)           {}
func (p *alone) Progress(uint64, uint64)            {}
func (p *alone) Lost(peer slot.PeerID, reason allreduce.Reason, err error) {
	p.fail(fmt.Errorf("peer %s was lost (%s): %w", peer.Short(), reason, err))
}

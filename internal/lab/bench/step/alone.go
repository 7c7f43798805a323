package step

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
	"github.com/p2pdiloco/p2pdiloco/internal/machine"
	"github.com/p2pdiloco/p2pdiloco/internal/node/rules"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

const connectTimeout = time.Minute

// alone is a peer without a ledger. It ends with its process.
type alone struct {
	params allreduce.Params
	net    *p2p.Network
	engine *allreduce.Engine
	own    *allreduce.Contribution
	plan   slot.Plan
	failed chan error // has room for one
}

// serveAlone carries out orders until they end: one with the plan of all reductions, then two for
// each reduction, of which the second says that all peers have its outcome.
func serveAlone(ctx context.Context, o order, orders *gob.Decoder, answers *gob.Encoder) (err error) {
	p := &alone{params: rules.Reduction(o.Case.spec(o.Run, o.Slots)), failed: make(chan error, 1)}
	offer, err := p.start(ctx, o)
	if err != nil {
		return err
	}
	// the first answer is to o
	err = answers.Encode(answer{Offer: offer, Addrs: p.net.Addrs()})
	var all order
	if err = errors.Join(err, orders.Decode(&all)); err != nil {
		return err
	}
	p.plan = all.Plan
	err = errors.Join(p.connect(ctx, all.Bootstrap), answers.Encode(answer{}))
	end := func() error { return nil }
	for height := uint64(1); err == nil; height++ {
		if err = orders.Decode(&order{}); errors.Is(err, io.EOF) {
			return end()
		}
		if height == warmUps+1 && err == nil {
			end, err = bench.Profile(o.Profile)
		}
		if err == nil {
			err = p.reduce(ctx, height, orders, answers)
		}
	}
	return err
}

// start makes the network and the contribution.
func (p *alone) start(ctx context.Context, o order) (offer slot.Offer, err error) {
	cfg := p2p.LAN()
	// a machine that has too much to do looks like a silent peer
	cfg.Listen, cfg.Pulse = o.Listen, time.Minute
	if p.net, err = p2p.New(ctx, cfg); err != nil {
		return offer, err
	}
	if p.engine, err = allreduce.New(allreduce.Config{
		Self: p.net.ID(), Run: slot.Hash([]byte(o.Run)), Params: p.params, Transport: p,
	}); err != nil {
		return offer, err
	}
	p.net.Handle(p2p.ProtocolExchange, func(from slot.PeerID, s wire.Stream) { _ = p.engine.Accept(from, s) })
	machine.Frugal(o.Case.elements()) // as a node does
	k, err := codec.New(p.params.Codec)
	if err != nil {
		return offer, err
	}
	data := make([]byte, 0, k.EncodedSize(int(o.Case.elements())))
	for frame := range slices.Chunk(noise(o.Case.elements(), uint64(o.Number)), p.params.FrameElements) {
		data = k.Append(data, frame)
	}
	p.own, err = allreduce.Commit(p.params, 0, p.net.ID(), data)
	if err != nil {
		return offer, err
	}
	return slot.Offer{Peer: p.net.ID(), Slot: 1, Seq: 1, Weight: 1, Root: p.own.Root(), NormSq: p.own.NormSq()}, nil
}

// Open implements allreduce.Transport as the root package does.
func (p *alone) Open(ctx context.Context, to slot.PeerID) (wire.Stream, error) {
	return p.net.OpenBulk(ctx, to, p2p.ProtocolExchange)
}

// connect waits until all other peers of the plan are connected.
func (p *alone) connect(ctx context.Context, addrs []string) error {
	for _, offer := range p.plan.Offers {
		p.net.Protect([]slot.PeerID{offer.Peer})
	}
	err := p.net.AddBootstrap(addrs)
	for until := time.Now().Add(connectTimeout); err == nil && len(p.net.Peers()) < len(p.plan.Offers)-1; err = ctx.Err() {
		if time.Now().After(until) {
			return fmt.Errorf("only %d of %d peers can be reached", len(p.net.Peers()), len(p.plan.Offers)-1)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// reduce is one reduction: from an order to the outcome, and until all peers have it.
func (p *alone) reduce(ctx context.Context, height uint64, orders *gob.Decoder, answers *gob.Encoder) error {
	p.plan.Height, p.plan.Opened.Height = height, height
	cpu, began := bench.CPUSeconds(), time.Now()
	running, err := p.engine.Start(ctx, p.plan, p.own, p)
	if err != nil {
		return err
	}
	select {
	case <-running.Complete():
	case err := <-p.failed:
		return err
	}
	if err := answers.Encode(answer{Seconds: time.Since(began).Seconds()}); err != nil {
		return err
	}
	if err := orders.Decode(&order{}); err != nil {
		return err
	}
	a := answer{CPU: bench.CPUSeconds() - cpu, Memory: bench.PeakMemory()}
	a.Sent, _ = running.Traffic()
	result, ok := running.Result(slot.Range{End: p.params.Fragments[0]})
	if !ok {
		return errors.New("the outcome is not complete")
	}
	a.Outcome = slot.Hash(result)
	running.Release()
	return answers.Encode(a)
}

// Within and the methods that follow are what a reduction tells. Lost takes the first failure: a
// peer that is done may be gone before others are.
func (p *alone) Within(set slot.Bitmap) slot.Bitmap                   { return set }
func (p *alone) SegmentDone(slot.Segment, slot.Root, allreduce.Alike) {}
func (p *alone) Progress(uint64, uint64)                              {}
func (p *alone) Lost(peer slot.PeerID, reason allreduce.Reason, err error) {
	select {
	case p.failed <- fmt.Errorf("peer %s was lost (%s): %w", peer.Short(), reason, err):
	default:
	}
}

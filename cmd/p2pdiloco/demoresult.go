package main

import (
	"cmp"
	"maps"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

// demoResult is what a demo ends with: the document that demo --json prints.
type demoResult struct {
	RunID     string           `json:"run_id"`
	Params    uint64           `json:"params"`
	Rounds    uint64           `json:"rounds"`
	Identical bool             `json:"identical"` // all finished with equal state roots
	Peers     []demoPeerResult `json:"peers"`
	// what a peer would have sent in synchronous data-parallel training
	DDPBytes    uint64  `json:"ddp_bytes"`
	WallSeconds float64 `json:"wall_seconds"`
	LossCurve   string  `json:"loss_curve"` // path of the SVG; empty if none was drawn
	Report      string  `json:"report"`     // path of the page

	// held-out loss of the swarm by round, from the initial model on
	Losses      []float64 `json:"losses"`
	AloneLosses []float64 `json:"losses_alone"` // of one peer alone after as many steps of its own
}

// demoPeerResult is one peer's part: its own report, or what was seen of it.
type demoPeerResult struct {
	eventlog.Peer
	PID  int `json:"pid"`
	Exit int `json:"exit"` // -1 if a signal ended it
}

// OK says whether the demo showed what it should: all peers finished with equal roots, and the loss
// fell on each.
func (r demoResult) OK() bool {
	for _, p := range r.Peers {
		if p.LossFirst == nil || p.LossLast == nil || !(*p.LossLast < *p.LossFirst) {
			return false
		}
	}
	return r.Identical
}

// ddpBytes is what a ring all-reduce of float32 gradients at every inner step sends per peer:
// 2(N-1)/N x 4 x D bytes a step.
func ddpBytes(peers int, params, steps uint64) uint64 {
	n := uint64(peers)
	return 2 * (n - 1) * 4 * params * steps / n
}

func (s *demoSwarm) result() demoResult {
	r := demoResult{Rounds: s.cfg.Spec.Rounds, Identical: true, Peers: []demoPeerResult{}}
	for _, p := range s.peers {
		q := p.result()
		r.Peers = append(r.Peers, q)
		r.Params = max(r.Params, q.Parameters)
		r.RunID = cmp.Or(q.RunID, r.RunID)
		r.Identical = r.Identical && q.Exit == 0 && q.Slot == s.cfg.Spec.Rounds*p.parts && q.StateRoot != "" &&
			q.StateRoot == r.Peers[0].StateRoot
	}
	r.DDPBytes = ddpBytes(s.cfg.Peers, r.Params, s.cfg.Spec.Rounds*s.cfg.Spec.InnerSteps)
	r.Losses = s.losses()
	return r
}

// result is the peer's own report, or what was seen of it if it died without one.
func (p *demoPeer) result() demoPeerResult {
	own, ok := p.Report()
	if ok {
		own.RoundsApplied /= p.parts
		return demoPeerResult{own, p.PID(), p.code}
	}
	seen := eventlog.Peer{
		PeerID: p.ID, Parameters: p.status.Parameters, Slot: p.round * p.parts, StateRoot: p.roots[p.round],
		RoundsApplied: uint64(len(p.roots)), BytesSent: p.status.Sent, BytesReceived: p.status.Received,
	}
	if !p.status.RunID.IsZero() {
		seen.RunID = p.status.RunID.String()
	}
	if first, ok := p.losses[0]; ok {
		seen.LossFirst = &first
	}
	if last, ok := p.loss(); ok {
		seen.LossLast = &last
	}
	return demoPeerResult{seen, p.PID(), p.code}
}

// losses is the swarm's held-out loss by round, up to the first that no peer measured. Peers
// measure the same model on the same text, so the value of any peer will do.
func (s *demoSwarm) losses() []float64 {
	all := make(map[uint64]float64)
	for _, p := range s.peers {
		maps.Copy(all, p.losses)
	}
	losses := []float64{}
	for round := range s.cfg.Spec.Rounds + 1 {
		loss, ok := all[round]
		if !ok {
			break
		}
		losses = append(losses, loss)
	}
	return losses
}

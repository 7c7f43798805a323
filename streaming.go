package p2pdiloco

// ModeStreaming reduces the model in parts: fragment after fragment, each beside the inner steps that follow its border.
const ModeStreaming = "streaming"

// In mode streaming (Streaming DiLoCo, arXiv 2501.18512) a slot updates one of P fragments. There is a border every H/P inner steps, and
// the slot of a border lands tau of them (Spec.FragmentDelay) later:
//
//	inner steps -> D of s's fragment -> offered -> tau inner steps -> s lands -> the rest of the inner steps -> D of s+1's fragment -> …
//	                                       '--- slot s is reduced, agreed and applied ---'
//
// D is start - live. What lands is the anchor, in the slot's fragment alone:
//
//	live = alpha live + (1 - alpha) anchor;  start = anchor
//
// A Trainer trains on while the reduction takes longer than tau, and the slot lands as soon as it is applied (besides, in training.go): when a slot
// lands is each peer's own affair, for only the live parameters depend on it.
//
// So the start is at any time the anchor that has landed here last, whatever the fragment, and one vector is enough for it. The rest of the
// live parameters goes on untouched. Where it goes otherwise:
//   - a slot that closes while its inner steps run cuts them short. It and whatever else was applied without a contribution from here
//     take their fragments of the live parameters to the anchor, and nothing else; all inner steps to the newest slot's border follow;
//   - after a change of branch, a restart, a state that was fetched, and more than P missed slots, everything starts from the newest
//     anchor. So it does after the last slot, which is landed without any further inner steps.

// landing is what mode streaming remembers of what has landed.
type landing struct {
	at     edition  // of the anchor that n.start is and the live parameters grew from; the zero one: unknown
	slot   uint64   // newest that landed with an offer from here: its fragment is mixed, others are overwritten
	tokens uint64   // processed up to the last border
	spent  []uint64 // of them by fragment, when it landed
}

// follow takes n.start on to the newest anchor, and says of which slots the fragments changed by that; all: everything may have.
func (n *Node) follow() (slots []uint64, all bool) {
	l := &n.landing
	before, now := l.at, n.worker.state.copyOnward(n.start, l.at)
	l.at, n.held, n.base = now, now.slot, now.slot
	if !now.follows(before, n.spec.Fragments) || now.slot >= n.spec.LastSlot() {
		l.slot, l.spent = 0, make([]uint64, n.spec.Fragments)
		for p := range l.spent {
			l.spent[p] = l.tokens
		}
		return nil, true
	}
	for s := before.slot + 1; s <= now.slot; s++ {
		slots = append(slots, s)
		l.spent[n.spec.FragmentOf(s)] = l.tokens
	}
	return slots, false
}

// weight is how many tokens the next slot's contribution stands for, of which so many were processed since the last border.
func (n *Node) weight(tokens uint64) uint64 {
	if !n.spec.Streams() {
		return tokens
	}
	n.landing.tokens += tokens
	return n.landing.tokens - n.landing.spent[n.spec.FragmentOf(n.base+1)]
}

// alpha is how much of the live parameters stays where a slot lands.
func (n *Node) alpha(slotNumber uint64) float32 {
	if slotNumber != n.landing.slot {
		return 0
	}
	return n.spec.float(n.spec.FragmentAlpha)
}

// mix lands slots in live parameters, of which at least their fragments are in live, D elements.
func (n *Node) mix(live []float32, slots []uint64) {
	for _, s := range slots {
		for _, r := range n.fragment(s).Ranges {
			mix(live[r.Begin:r.End], live[r.Begin:r.End], n.start[r.Begin:r.End], n.alpha(s))
		}
	}
}

// goOn counts the inner steps that a loop of one's own has done since the border of the slot that has landed.
func (n *Node) goOn(trained int) {
	if task := *n.task.Load(); n.landing.slot > 0 && n.landing.slot == n.held && task.Slot == n.held+1 {
		task = task.part(trained, task.Steps)
		n.task.Store(&task)
	}
}

// part is the steps [from, to) of a task.
func (t Task) part(from, to int) Task {
	t.Done, t.Steps = t.Done+uint64(from), to-from
	return t
}

// plus is what two rounds of inner steps did together.
func (s Stats) plus(o Stats) Stats {
	if s.Steps == 0 {
		return o
	}
	steps := float64(s.Steps + o.Steps)
	mean := func(a, b float64) float64 { return (a*float64(s.Steps) + b*float64(o.Steps)) / steps }
	return Stats{
		Steps: s.Steps + o.Steps, Samples: s.Samples + o.Samples, Tokens: s.Tokens + o.Tokens, Elapsed: s.Elapsed + o.Elapsed,
		Loss: mean(s.Loss, o.Loss), GradNorm: mean(s.GradNorm, o.GradNorm),
	}
}

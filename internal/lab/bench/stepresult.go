package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/node/replica"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// compare adds the ratios to the first case and to OpenMPI.
func (cfg StepConfig) compare(r *Report) {
	first := cfg.Cases[0]
	for i, c := range cfg.Cases {
		for _, unit := range []string{"sec/op", "reduce-sec", "cpu-sec/GB"} {
			r.Ratio(c.name(), c.nameOf("MPI"), unit, "mpi")
		}
		for _, unit := range []string{"sec/op", "cpu-sec", "cpu-sec/GB", "exchange-B", "peak-vectors"} {
			if i > 0 {
				r.Ratio(c.name(), first.name(), unit, "first")
			}
		}
	}
}

// addRound adds a reduction.
func addRound(r *Report, turn int, name string, x Round) {
	r.Add(turn, name, "sec/op cpu-sec/GB exchange-B", x.Seconds, x.CPU/max(1, x.Sent)*1e9, x.Sent)
}

func (t *turn) add(units string, figures ...float64) {
	t.report.Add(t.number, t.name(), units, figures...)
}

func (t *turn) order(i int) any { return t.orders[i] }

// steps adds what peers with a ledger do until their run ends.
func (t *turn) steps() error {
	told, err := ask[Told](t, "Node.Run", t.order)
	if err != nil {
		return err
	}
	return t.addSteps(told)
}

// addSteps adds each slot of each peer, and what a slot takes.
func (t *turn) addSteps(peers []Told) error {
	samples, missed, err := samplesOf(t.slots, peers)
	if err != nil {
		return err
	}
	if len(samples) == 0 {
		return errors.New("no slot that counts has a contribution of any peer")
	}
	var phases []string
	for _, m := range moments[1:] {
		phases = append(phases, m.phase+"-sec")
	}
	times := strings.Join(append(phases, "sec/op"), " ")
	for _, x := range samples {
		t.add(times, x...)
	}
	var used Counts
	memory, live := 0.0, 0.0
	for _, p := range peers {
		for i := range countUnits {
			used[i] += (p.After[i] - p.Before[i]) / float64(t.slots)
		}
		memory, live = max(memory, p.Memory), max(live, p.Live)
	}
	t.add(strings.Join(countUnits[:], " "), used[:]...)
	t.add(floorUnits+" cpu-sec-x-floor", append(t.floor[:], used[0]/t.floor[0])...)
	t.add("peak-vectors live-vectors missed-slots", memory/float64(t.Bytes), live/float64(t.Bytes), float64(missed))
	return nil
}

// reductions has peers without a ledger reduce, again and again, and adds each.
func (t *turn) reductions() error {
	offered, err := ask[Offered](t, "Alone.Start", t.order)
	if err != nil {
		return err
	}
	plan := Plan{Plan: slot.Plan{Slot: 1}}
	for _, o := range offered {
		plan.Offers, plan.Addrs = append(plan.Offers, o.Offer), append(plan.Addrs, o.Addrs...)
	}
	slices.SortFunc(plan.Offers, func(a, b slot.Offer) int { return strings.Compare(string(a.Peer), string(b.Peer)) })
	plan.Pieces, plan.Ring = replica.Reduction(t.spec("", t.slots)).Planner()(plan.Plan, slot.Links{})
	if _, err := ask[struct{}](t, "Alone.Connect", func(int) any { return plan }); err != nil {
		return err
	}
	memory, outcome := 0.0, slot.Root{}
	for n := range aloneWarmUps + t.slots {
		height := func(int) any { return n + 1 }
		seconds, err := ask[float64](t, "Alone.Reduce", height)
		if err != nil {
			return err
		}
		ends, err := ask[Reduced](t, "Alone.End", height)
		if err != nil {
			return err
		}
		x := Round{Seconds: slices.Max(seconds)}
		for i, e := range ends {
			x.CPU, x.Sent, memory = x.CPU+e.CPU, x.Sent+float64(e.Sent), max(memory, e.Memory)
			if n == 0 && i == 0 {
				outcome = e.Outcome
			}
			if e.Outcome != outcome { // the contributions stay, and so must the outcome
				return fmt.Errorf("reduction %d: peer %d has another outcome than peer 1 had at first", n+1, i+1)
			}
		}
		if n >= aloneWarmUps {
			addRound(t.report, t.number, t.name(), x)
		}
	}
	t.add("peak-vectors", memory/float64(t.Bytes))
	return nil
}

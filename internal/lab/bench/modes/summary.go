package modes

import (
	"math"

	"gonum.org/v1/gonum/stat"
)

// sumUp fills in what follows from the runs.
func (r *Result) sumUp() {
	for i := range r.Rows {
		row := &r.Rows[i]
		row.Loss, row.Spread = meanAndSpread(row.values(func(x Trial) float64 { return x.Loss }))
		if row.Mode == "" {
			continue
		}
		row.OverReference = over(row, r.row(referenceRow))
		row.OverSync = over(row, r.row(modeSync))
		row.Sent = row.mean(func(x Trial) float64 { return x.perPeer(func(p PeerRun) float64 { return p.Sent }) })
		row.Stall = row.mean(Trial.stall)
		row.Seconds = row.mean(func(x Trial) float64 { return x.Seconds })
	}
	peak := func(x Trial) float64 { return x.perPeer(func(p PeerRun) float64 { return p.Peak }) }
	if s := r.row(modeSync); s != nil {
		if of := s.mean(peak); of != nil && *of > 0 {
			for i := range r.Rows {
				if p := r.Rows[i].mean(peak); p != nil && r.Rows[i].Mode != "" {
					r.Rows[i].Peak = new(*p / *of)
				}
			}
		}
	}
	r.Races = nil
	for _, name := range []string{slowPacedRow, slowAsyncRow} {
		if race := raceOf(r.row(slowSyncRow), r.row(name)); race != nil {
			r.Races = append(r.Races, *race)
		}
	}
	r.Load = r.coresShort()
	r.Goals = r.goals()
}

// values are of the runs that came to an end, by seed.
func (r *Row) values(of func(Trial) float64) (v []float64) {
	for _, x := range r.Runs {
		if x.Error == "" {
			v = append(v, of(x))
		}
	}
	return v
}

func (r *Row) mean(of func(Trial) float64) *float64 {
	mean, _ := meanAndSpread(r.values(of))
	return mean
}

// run is the run with a seed, if it came to an end.
func (r *Row) run(seed uint64) (Trial, bool) {
	for _, x := range r.Runs {
		if x.Seed == seed && x.Error == "" {
			return x, true
		}
	}
	return Trial{}, false
}

// over is how much higher a row's losses are than another's with the same seeds, as a share of
// those.
func over(row, other *Row) *float64 {
	if row == nil || other == nil || row == other {
		return nil
	}
	mean, _ := meanAndSpread(row.pairs(other, func(a, b Trial) float64 { return a.Loss/b.Loss - 1 }))
	return mean
}

// pairs are values of two rows' runs with the same seed.
func (r *Row) pairs(other *Row, of func(a, b Trial) float64) (v []float64) {
	for _, a := range r.Runs {
		if b, ok := other.run(a.Seed); ok && a.Error == "" {
			v = append(v, of(a, b))
		}
	}
	return v
}

// meanAndSpread are the mean and the standard deviation of a sample, null where there are too few
// values for it.
func meanAndSpread(v []float64) (mean, spread *float64) {
	m, deviation := stat.MeanStdDev(v, nil)
	switch len(v) {
	case 0:
		return nil, nil
	case 1:
		return &m, nil
	}
	return &m, &deviation
}

func (x Trial) perPeer(of func(PeerRun) float64) (mean float64) {
	for _, p := range x.Peers {
		mean += of(p) / float64(len(x.Peers))
	}
	return mean
}

// stall is the share of the trainers' time in which they stood still and waited for others.
func (x Trial) stall() float64 {
	stall, all := 0.0, 0.0
	for _, p := range x.Peers {
		stall, all = stall+p.Stall, all+p.Stall+p.Training
	}
	if all == 0 {
		return 0
	}
	return stall / all
}

// raceOf compares the rows with a straggler, null if there are none.
func raceOf(barrier, row *Row) *Race {
	if barrier == nil || row == nil {
		return nil
	}
	race := &Race{Row: row.Name}
	ratios := row.pairs(barrier, func(a, b Trial) float64 {
		one, other := settled(a.Curve), settled(b.Curve)
		target := max(lowest(one), lowest(other))
		mine, _ := timeTo(one, target)
		theirs, _ := timeTo(other, target)
		race.Targets, race.Seconds, race.Sync = append(race.Targets, target), append(race.Seconds, mine),
			append(race.Sync, theirs)
		return mine / theirs
	})
	mean, _ := meanAndSpread(ratios)
	if mean == nil || math.IsNaN(*mean) || math.IsInf(*mean, 0) {
		return nil
	}
	race.Ratio = *mean
	return race
}

// patience is how much longer than they should inner steps may take.
const patience = 1.1

// coresShort says in which run inner steps exceeded their length most, if they exceeded it much.
func (r *Result) coresShort() (worst *CoresShort) {
	for _, row := range r.Rows {
		for _, x := range row.Runs {
			if ratio := r.pace(row, x); ratio > patience && (worst == nil || ratio > worst.Ratio) {
				worst = &CoresShort{row.Name, ratio}
			}
		}
	}
	return worst
}

// pace is how long a run's inner steps took, divided by how long they should take. The straggler is
// left out, because its cores are least busy.
func (r *Result) pace(row Row, x Trial) float64 {
	batch := float64(r.Tokens) / float64(uint64(r.Peers)*r.Rounds*r.InnerSteps)
	slowest := 0.0
	for i, p := range x.Peers {
		if slow := i == r.Peers-1 && (row.Name == slowSyncRow || row.Name == slowPacedRow ||
			row.Name == slowAsyncRow); !slow && p.Tokens > 0 {
			slowest = max(slowest, p.Training/(float64(p.Tokens)/batch*r.StepSeconds))
		}
	}
	return slowest
}

package membership

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

// allRestart is the rule of systems that start a reduction over when anybody is lost, on the same
// deaths: slots done and first attempts that sufficed, in the time that the ledger took.
func allRestart(cfg churnConfig, deaths []time.Duration, until time.Duration) (slots, first int) {
	for now := time.Duration(0); ; slots++ {
		now += cfg.train
		for attempt := 0; ; attempt++ {
			end := now + cfg.reduce
			lost := time.Duration(-1)
			for _, d := range deaths {
				if d >= now && d < end {
					lost = d
					break
				}
			}
			if lost < 0 {
				now = end
				if attempt == 0 && now <= until {
					first++
				}
				break
			}
			now = lost + 2*time.Second // noticed
			if now > until {
				break
			}
		}
		if now > until {
			return slots, first
		}
	}
}

// churnRow is one number of peers in the table.
type churnRow struct {
	cfg            churnConfig
	deaths         int
	keep, all      churnResult
	over           time.Duration // that the all-restart rule had
	alone, aloneOK int           // allRestart
}

func (c churnConfig) row() churnRow {
	w := newChurnWorld(c)
	r := churnRow{cfg: c, keep: w.run()}
	r.deaths = len(w.deaths)
	r.alone, r.aloneOK = allRestart(c, w.deaths, r.keep.ended)
	if c.peers > 100 {
		return r // it starts over every few seconds and gets nowhere, at great length
	}
	c.restart, c.limit = true, 2*r.keep.ended
	r.all = newChurnWorld(c).run()
	if r.over = c.limit; r.all.slots == c.slots {
		r.over = r.all.ended
	}
	return r
}

// goodput is the slots done over those that there would have been without any trouble.
func (r churnRow) goodput(slots int, over time.Duration) float64 {
	return float64(slots) * float64(r.cfg.train+r.cfg.reduce) / float64(max(over, 1))
}

func share(part, whole int) float64 { return float64(part) / float64(max(whole, 1)) }

func (r churnRow) String() string {
	of := func(c churnResult, over time.Duration) string {
		if over == 0 {
			return "     -          -         -          -"
		}
		return fmt.Sprintf("%6d %10.3f %9.3f %10.2f", c.slots, share(c.firstBallot, c.slots),
			share(c.counted, c.offered), r.goodput(c.slots, over))
	}
	return fmt.Sprintf("%5d %6d %6d |%s |%s |%6d %10.3f %10.2f\n", r.cfg.peers, r.deaths, r.keep.revisions,
		of(r.keep, r.keep.ended), of(r.all, r.over),
		r.alone, share(r.aloneOK, r.alone), r.goodput(r.alone, r.keep.ended))
}

const churnHead = `
                    | revisions keep what is reduced        | the ledger, each loss restarts all    | restarts, counted alone
peers deaths  lost  | slots 1st ballot   counted    goodput | slots 1st ballot   counted    goodput | slots    1st try    goodput
`

// The ledger alone, with members that live for 2 hours on average, reductions of 2 minutes and
// rounds of a minute. It prints a table with -v: of the slots, how many were committed in the first
// ballot; of the contributions offered, how many counted; and the slots done over those that would
// have been done without any trouble. Beside it, the rule by which every loss starts the reduction
// over, in the same ledger and, on the same deaths, by itself. A run of 500 takes minutes and is
// tried at night.
func TestChurn(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	table.WriteString(churnHead)
	for _, c := range []churnConfig{
		{peers: 8, slots: testutil.Choose(10, 10, 60), coarse: churnTiming.Beat / 2},
		{peers: 64, slots: testutil.Choose(1, 1, 12), coarse: churnTiming.Beat},
		{peers: 500, slots: testutil.Choose(0, 0, 3), coarse: churnTiming.Beat},
	} {
		if c.slots == 0 {
			continue
		}
		c.limit, c.life, c.reduce, c.train = 1000*time.Hour, 2*time.Hour, 2*time.Minute, time.Minute
		r := c.row()
		table.WriteString(r.String())
		k := r.keep
		if k.slots-k.firstBallot > max(1, k.slots/10) || share(k.counted, k.offered) < 0.9 ||
			r.goodput(k.slots, k.ended) < 0.5 {
			t.Errorf("%d peers: %+v", c.peers, k)
		}
		if c.peers >= 64 && (r.goodput(k.slots, k.ended) <= r.goodput(r.alone, k.ended) ||
			r.goodput(k.slots, k.ended) <= r.goodput(r.all.slots, r.over)) {
			t.Errorf("%d peers: keeping what is reduced is no better than starting over", c.peers)
		}
		if c.peers >= 500 && share(r.aloneOK, r.alone) > 0.01 {
			t.Errorf("%d peers: the all-restart rule did %d of %d slots at once", c.peers, r.aloneOK, r.alone)
		}
	}
	t.Log(table.String())
}

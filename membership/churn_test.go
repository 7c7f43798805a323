package membership

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

// row is what came of a world, in one line: of the slots, how many were committed in the first
// term; of the contributions offered, how many counted; and the slots done over those that would
// have been done without any trouble.
func (r churnResult) row(c churnConfig) string {
	return fmt.Sprintf("%5d members: %4d revisions, %d resignations in %d slots, %.3f in the first term, "+
		"%.3f counted, goodput %.3f\n", c.peers, r.revisions, r.resigned, r.slots, share(r.firstTerm, r.slots),
		share(r.counted, r.offered), r.goodput(c))
}

func (r churnResult) goodput(c churnConfig) float64 {
	return float64(r.slots) * float64(c.train+c.reduce) / float64(max(r.ended, 1))
}

func share(part, whole int) float64 { return float64(part) / float64(max(whole, 1)) }

// The ledger alone, with members that live for 2 hours on average, reductions of 2 minutes and
// rounds of a minute. It prints a table with -v. A run of 500 takes minutes and is tried at night.
func TestChurn(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	for _, c := range []churnConfig{
		{peers: 8, slots: testutil.Choose(10, 10, 60), coarse: churnTiming.Beat / 2},
		{peers: 64, slots: testutil.Choose(1, 1, 12), coarse: churnTiming.Beat},
		{peers: 500, slots: testutil.Choose(0, 0, 3), coarse: churnTiming.Beat},
	} {
		if c.slots == 0 {
			continue
		}
		c.limit, c.life, c.reduce, c.train = 1000*time.Hour, 2*time.Hour, 2*time.Minute, time.Minute
		r := newChurnWorld(c).run()
		table.WriteString(r.row(c))
		if r.slots-r.firstTerm > max(1, r.slots/10) || share(r.counted, r.offered) < 0.9 || r.goodput(c) < 0.5 {
			t.Errorf("%d peers: %+v", c.peers, r)
		}
	}
	t.Log("\n" + table.String())
}

// TestStragglers: what a leader may leave out, and its resignations, cost a run in which some are
// late at most 1% of its slots. Beside it the same run in trust crash, where nothing of this is
// asked. Rounds of 10 minutes, reductions of one.
func TestStragglers(t *testing.T) {
	t.Parallel()
	for _, n := range testutil.Choose([]int{4}, []int{4}, []int{4, 8, 31}) {
		for _, late := range testutil.Choose([]float64{.1}, []float64{.1}, []float64{.01, .05, .1}) {
			c := churnConfig{
				peers: n, late: late, slots: testutil.Choose(10, 20, 1200/n), coarse: churnTiming.Beat / 2,
				limit: 1000 * time.Hour, reduce: time.Minute, train: 10 * time.Minute,
			}
			crash := newChurnWorld(c).run()
			c.byzantine = true
			byzantine := newChurnWorld(c).run()
			t.Logf("%3.0f%% late\ncrash:     %sbyzantine: %s", 100*late, crash.row(c), byzantine.row(c))
			if crash.slots < c.slots || byzantine.goodput(c) < .99*crash.goodput(c) && testutil.Nightly() {
				t.Errorf("%d members, %g%% late: goodput %.3f, in trust crash %.3f", n, 100*late, byzantine.goodput(c),
					crash.goodput(c))
			}
		}
	}
}

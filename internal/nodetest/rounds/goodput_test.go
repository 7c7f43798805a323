package rounds

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/node/testhooks"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/testlevel"
)

// Goodput is the share of the peers' time that was spent on inner steps which a record lists: of
// all peers' time, from the start of the process to its end, with looking for the run and fetching
// its state. Whole nodes are simulated, with trainers that only take time.

// The timing is that of preset wan slowed down, as the scenarios' rounds are: what costs in a
// simulation is signs of life, not time that passes. Grace, stragglers and discovery are as they
// are in wan.
const (
	slow      = 20            // times less often than by default is what goes on in any case
	stateRate = 4 * 4_000_000 // bytes of states a second that four cores serve
)

// slowWAN changes the timing of preset wan.
func slowWAN(t *testhooks.Timing) {
	t.Ledger.Alive, t.Ledger.Beat, t.Ledger.Lost, t.Ledger.Gone = 2*time.Minute, time.Minute, 5*time.Minute,
		30*time.Second
	t.Ledger.Patience, t.Ledger.Retry = 3*time.Minute, 30*time.Second
	t.Stall, t.Fetch = 3*time.Minute, 3*time.Minute
	t.Heartbeat = slow * time.Second
}

// scenario is what a swarm goes through.
type scenario struct {
	peers    int
	elements uint64 // simulated
	// bytes that the vector would have: what is simulated counts for so much more on the links
	vector  int
	steps   uint64          // H
	paces   []time.Duration // of an inner step, dealt out in turn
	latency time.Duration
	rate    int           // bits a second of each link
	life    time.Duration // mean time that a peer stays; half of them leave, half vanish
	away    time.Duration // mean time until another comes for it
	lasts   time.Duration // of the measurement
	warm    time.Duration // from the first slot on, before it: all work at full pace then
}

// goodput is what came of it.
type goodput struct {
	mode       string
	seed       uint64
	total      time.Duration // living peers' time
	useful     time.Duration // in records
	discounted time.Duration // the same, times the discount of its staleness
	busy       time.Duration // in inner steps
	joining    time.Duration // before a peer's first inner step
	slots      uint64
	listed     int // contributions
	left, lost int
	virtual    time.Duration
	work       time.Duration // of processors, to simulate it
}

func (g goodput) share(d time.Duration) float64 { return float64(d) / float64(max(g.total, 1)) }

const goodputHead = "mode       seed  goodput  discounted  training  wasted  joining  waiting  slots  contributors  " +
	"left  lost  virtual    faster"

func (g goodput) String() string {
	pc := func(d time.Duration) float64 { return 100 * g.share(d) }
	return fmt.Sprintf("%-10s %4d  %6.1f%%  %9.1f%%  %7.1f%%  %5.1f%%  %6.1f%%  %6.1f%%  %5d  %12.1f  %4d  %4d  %8s  "+
		"%5.0fx",
		g.mode, g.seed, pc(g.useful), pc(g.discounted), pc(g.busy), pc(g.busy-g.useful), pc(g.joining),
		pc(g.total-g.busy-g.joining), g.slots,
		float64(g.listed)/float64(max(g.slots, 1)), g.left, g.lost, g.virtual.Round(time.Second),
		float64(g.virtual)/float64(max(g.work, 1)))
}

// weight is for how many bytes each simulated one of vectors stands.
func (sc scenario) weight() int { return sc.vector / int(4*sc.elements) }

// speeds are the peers' inner steps, dealt out in turn: half of them are fast, a quarter takes
// twice as long, a quarter four times.
func speeds(step time.Duration) []time.Duration {
	return []time.Duration{step, step, 2 * step, 4 * step}
}

// large is the scenario of P2PDILOCO_TEST_GOODPUT=PEERS: five minutes of inner steps at the fast
// peers, and links of 20 Mbit/s on which a reduction of 125 MB takes a third of that.
func large(peers int) scenario {
	return scenario{
		peers: peers, elements: 1 << 16, vector: 125_000_000, steps: 20, paces: speeds(15 * time.Second),
		latency: 50 * time.Millisecond, rate: 20_000_000,
		life: 4 * time.Hour, away: 2 * time.Minute, lasts: max(time.Hour, 16*time.Hour/time.Duration(peers)),
		warm: 30 * time.Minute,
	}
}

// small is a scenario of seconds.
func small() scenario {
	return scenario{
		peers: 6, elements: 1 << 15, vector: 40_000_000, steps: 20, paces: speeds(5 * time.Second),
		latency: 50 * time.Millisecond, rate: 20_000_000,
		life: time.Hour, away: time.Minute, lasts: 15 * time.Minute, warm: 3 * time.Minute,
	}
}

func (sc scenario) spec(mode string) p2pdiloco.Spec {
	spec := p2pdiloco.Spec{
		Name: "sim", Rounds: 100_000, InnerSteps: sc.steps, StartPeers: uint64(sc.peers), TrimPermille: 250,
		Mode: mode,
	}
	if mode == p2pdiloco.ModeStreaming {
		spec.Fragments = 4
	}
	return spec
}

// TestGoodputTable prints what is left of the peers' time in each mode:
//
//	P2PDILOCO_TEST_GOODPUT=32 go test ./internal/nodetest/rounds -run TestGoodput -v -timeout 30m
//
// P2PDILOCO_TEST_SEEDS (default 3) and P2PDILOCO_TEST_MODES say how often and of what; with
// P2PDILOCO_TEST_SPEEDS=equal all peers are fast; P2PDILOCO_TEST_VECTOR is the model's size in
// bytes. GOGC=800 GOMEMLIMIT=3GiB make it faster. The last column is virtual time over that of the
// processors.
func TestGoodputTable(t *testing.T) {
	peers, err := strconv.Atoi(os.Getenv("P2PDILOCO_TEST_GOODPUT"))
	if err != nil {
		t.Skip("prints a table if P2PDILOCO_TEST_GOODPUT=PEERS is set; TestGoodput checks a small one")
	}
	sc, modes := large(peers), nodetest.Modes
	if os.Getenv("P2PDILOCO_TEST_SPEEDS") == "equal" {
		sc.paces = sc.paces[:1]
	}
	if bytes, err := strconv.Atoi(os.Getenv("P2PDILOCO_TEST_VECTOR")); err == nil {
		sc.vector = bytes
	}
	if given := os.Getenv("P2PDILOCO_TEST_MODES"); given != "" {
		modes = strings.Split(given, ",")
	}
	seeds, _ := strconv.ParseUint(cmp.Or(os.Getenv("P2PDILOCO_TEST_SEEDS"), "3"), 10, 64)
	fmt.Println(goodputHead)
	for _, mode := range modes {
		for seed := range seeds {
			fmt.Println(simulate(t, sc, sc.spec(mode), seed+1))
		}
	}
}

// A reduction beside the inner steps leaves more of the peers' time to them than one that is waited
// for; and where some peers are slower, inner steps by speed leave much more than equal ones.
func TestGoodput(t *testing.T) {
	if !testlevel.Nightly() {
		t.Skip("for .ci/nightly: it takes twenty seconds")
	}
	t.Parallel()
	equal, mixed := small(), small()
	equal.paces = equal.paces[:1]
	// .05 to .18 in runs of these few slots: which peers come and go, and when, is chance
	more(t, equal, p2pdiloco.ModeDelayed, 0.02, 0.65)
	more(t, mixed, p2pdiloco.ModeAsync, 0.3, 0.7)
}

// more checks how much more goodput a mode has than mode sync, and that it has some at all.
func more(t *testing.T, sc scenario, mode string, by, least float64) {
	t.Helper()
	waited, better := simulate(t, sc, sc.spec(p2pdiloco.ModeSync), 1), simulate(t, sc, sc.spec(mode), 1)
	t.Logf("\n%s\n%s\n%s", goodputHead, waited, better)
	for _, g := range []goodput{waited, better} {
		if g.busy+g.joining > g.total {
			t.Errorf("%s: %v of inner steps and %v of joining in %v of living", g.mode, g.busy, g.joining, g.total)
		}
	}
	if waited.share(waited.useful)+by > better.share(better.useful) {
		t.Errorf("mode %s has no more goodput than mode sync", mode)
	}
	if better.share(better.useful) < least {
		t.Errorf("mode %s has a goodput of %.2f, usually more than %.2f", mode, better.share(better.useful), least)
	}
}

package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// SoakConfig says how long two swarms run beside each other, one of which is hurt.
type SoakConfig struct {
	swarm.Setting
	Peers         int // of each swarm
	Minutes       float64
	FaultsPerHour int
	Trust         string
	Seed          uint64
	Kinds         lab.Names[Kind]
	Pause         time.Duration // for inner steps of a slot
	LogLevel      string        // of the peers' logs
}

// SoakKinds are the faults of a soak: those that one peer, or the bootstrap node, has at a time.
var SoakKinds = lab.Names[Kind]{Kill, Leader, Restart, Wipe, Stop, Bootstrap}

// Bounds of a soak. Two swarms share the machine, and a fault takes ten seconds or more.
const (
	maxMinutes       = 24 * 60
	maxFaultsPerHour = 1200
	maxSoakPeers     = maxPeers / 2
	// more slots than a soak can have: it ends by time
	soakSlots = 10_000_000
	// the gate stands open for so many slots more
	soakAhead = 4
	// for the swarms to form, and for the last fault and the last slots
	soakSlack = 10 * time.Minute
)

// Goals of a soak, in parts of what the undisturbed swarm did, and of the faults that were drawn: a
// swarm that is long in coming back from one is hurt by fewer.
const (
	GoalSlots  = 0.98
	GoalTokens = 0.96
	GoalFaults = 0.95
)

// Validate returns all faults of c in one error.
func (c SoakConfig) Validate() error {
	var f sources.Faults
	f.Add(c.Peers < minPeers || c.Peers > maxSoakPeers, "peers", c.Peers, "allowed: %d to %d", minPeers, maxSoakPeers)
	long := c.Minutes > 0 && c.Minutes <= maxMinutes // not so of NaN
	f.Add(!long, "minutes", c.Minutes, "allowed: above 0, to %d", maxMinutes)
	f.Add(c.FaultsPerHour < 0 || c.FaultsPerHour > maxFaultsPerHour, "faults-per-hour", c.FaultsPerHour,
		"allowed: 0 to %d", maxFaultsPerHour)
	f.Add(c.Seed == 0, "seed", c.Seed, "allowed: 1 and above")
	f.Add(c.Pause < 0 || c.Pause > time.Minute, "step-time", c.Pause, "allowed: 0 to 1m")
	f.Add(c.Trust != p2pdiloco.TrustCrash && c.Trust != p2pdiloco.TrustByzantine, "trust", c.Trust, "allowed: %s, %s",
		p2pdiloco.TrustCrash, p2pdiloco.TrustByzantine)
	for _, k := range c.Kinds {
		if !strings.Contains(","+SoakKinds.String()+",", ","+string(k)+",") {
			f.Add(true, "faults", c.Kinds, "%s is not for a soak; allowed: %v", k, SoakKinds)
		}
	}
	return errors.Join(f...)
}

// length is how long slots count.
func (c SoakConfig) length() time.Duration { return time.Duration(c.Minutes * float64(time.Minute)) }

// Replay is the command line that runs the same schedule again.
func (c SoakConfig) Replay() string {
	return fmt.Sprintf("p2plab soak --peers %d --minutes %g --faults-per-hour %d --trust %s --seed %d --faults %v "+
		"--step-time %v", c.Peers, c.Minutes, c.FaultsPerHour, c.Trust, c.Seed, c.Kinds, c.Pause)
}

// TimedFault is a fault that begins at a time, as soon after it as it may.
type TimedFault struct {
	After float64 `json:"after_seconds"`
	Fault
}

// SoakSchedule draws the faults of a soak: one in each interval, at a random time in it. Each kind
// occurs once before any occurs again.
func SoakSchedule(c SoakConfig) (faults []TimedFault) {
	rng := rand.New(rand.NewPCG(c.Seed, 0x73_6f_61_6b))
	deck := cards(c.Kinds)
	if c.FaultsPerHour == 0 || len(deck) == 0 {
		return nil
	}
	interval := time.Hour.Seconds() / float64(c.FaultsPerHour)
	for i := range int(c.length().Seconds() / interval) {
		if i%len(deck) == 0 {
			rng.Shuffle(len(deck), func(a, b int) { deck[a], deck[b] = deck[b], deck[a] })
		}
		after := (float64(i) + rng.Float64()) * interval
		faults = append(faults, TimedFault{after, deck[i%len(deck)].drawn(rng, c.Peers)})
	}
	return faults
}

// soak is what a swarm of a soak has beside its runner.
type soak struct {
	length time.Duration
	faults []TimedFault  // to come
	ready  *atomic.Int32 // of both swarms, those that train
	here   bool          // this one is among them
	from   time.Time     // slots count from here on; zero: one of the swarms does not train yet
	left   int           // faults for which there was no time
	ends   []ending      // what the peers held at the end; nil before
}

// Soak runs an undisturbed swarm and one that is hurt beside each other. An error means that there
// is no result.
func Soak(ctx context.Context, cfg SoakConfig) (SoakResult, error) {
	timed, cancel := context.WithTimeoutCause(ctx, cfg.length()+soakSlack,
		fmt.Errorf("%w: the soak is not over %v after its time", errHang, soakSlack))
	defer cancel()
	began, ready := time.Now(), &atomic.Int32{}
	type outcome struct {
		r   *runner
		res Result
		err error
	}
	control := make(chan outcome, 1)
	go func() {
		r := newSoaker(cfg, nil, "control", swarm.NewScreen(quiet{}, 0), ready)
		res, err := r.whole(timed)
		control <- outcome{r, res, err}
		if err != nil || !res.OK {
			cancel() // there is nothing to compare with
		}
	}()
	hurt := newSoaker(cfg, SoakSchedule(cfg), "faulted", swarm.NewScreen(cfg.Out, 0), ready)
	res, err := hurt.whole(timed)
	if err != nil || !res.OK {
		cancel()
	}
	beside := <-control
	if err := errors.Join(err, beside.err, ctx.Err()); err != nil {
		return SoakResult{}, err
	}
	result := SoakResult{
		Minutes: cfg.Minutes, FaultsPerHour: cfg.FaultsPerHour, Peers: cfg.Peers, Trust: cfg.Trust, Seed: cfg.Seed,
		Kinds: cfg.Kinds, Faulted: hurt.soaked(res), Control: beside.r.soaked(beside.res),
		WallSeconds: time.Since(began).Seconds(), Replay: cfg.Replay(), Dir: cfg.Dir,
	}
	result.judge()
	result.print(cfg.Out)
	return result, nil
}

// quiet takes the notes of the undisturbed swarm, which nobody reads.
type quiet struct{}

func (quiet) Write(b []byte) (int, error) { return len(b), nil }

func newSoaker(cfg SoakConfig, faults []TimedFault, name string, screen *swarm.Screen, ready *atomic.Int32) *runner {
	r := &runner{
		cfg: Config{
			Setting: cfg.Setting, Peers: cfg.Peers, Slots: soakSlots, Seed: cfg.Seed, Mode: p2pdiloco.ModeSync,
			Trust: cfg.Trust, Kinds: cfg.Kinds, LogLevel: cfg.LogLevel, Pause: cmp.Or(cfg.Pause, pause),
		},
		dir: filepath.Join(cfg.Dir, name), name: swarm.RunName("soak"), screen: screen,
		ledger: newLedger(),
		polls:  polls{answers: make(chan answer, 2*maxPeers)},
		soak:   &soak{length: cfg.length(), faults: faults, ready: ready},
	}
	r.ledger.tokens = map[uint64]uint64{}
	return r
}

// goOn takes a soak one step further: it passes on the faults whose time has come, and ends once
// the time is over, the last fault too, and all peers hold the state after the last slot.
func (r *runner) goOn() {
	s := r.soak
	if !s.here && r.ledger.slot >= quietFirst {
		s.here = true
		s.ready.Add(1)
	}
	if s.from.IsZero() && s.ready.Load() == 2 {
		s.from = time.Now()
		r.remember()
	}
	if s.from.IsZero() {
		return
	}
	since := time.Since(s.from)
	for len(s.faults) > 0 && since.Seconds() >= s.faults[0].After {
		r.pending, s.faults = append(r.pending, s.faults[0].Fault), s.faults[1:]
	}
	if since >= s.length/2 && len(r.memory) < 2 {
		r.remember()
	}
	if since < s.length {
		return
	}
	s.left, r.pending = s.left+len(r.pending), nil
	if len(r.active) == 0 && r.ledger.slot >= r.gate.slot {
		s.ends = r.held()
	}
}

// held is what the peers hold after the last slot; nil if one of them does not hold it yet.
func (r *runner) held() (ends []ending) {
	for _, p := range r.nodes {
		if !p.running() || p.status.Slot != r.gate.slot {
			return nil
		}
		ends = append(ends, ending{peer: p.n, finished: true, slot: p.status.Slot, root: p.status.StateRoot.String()})
	}
	r.remember()
	return ends
}

// ahead is the slot up to which a soak's peers may train. Once its time and its last fault are
// over, the gate stays where it is.
func (r *runner) ahead() uint64 {
	s := r.soak
	if !s.from.IsZero() && time.Since(s.from) >= s.length && len(r.active)+len(r.pending) == 0 {
		return r.gate.slot
	}
	return r.ledger.slot + soakAhead
}

// last is the run's last slot.
func (r *runner) last() uint64 {
	if r.soak != nil {
		return r.gate.slot
	}
	return r.cfg.Slots
}

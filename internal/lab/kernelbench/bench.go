package kernelbench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// Config says what to measure.
type Config struct {
	Elements int           // of a vector
	Rounds   int           // samples of each
	Sample   time.Duration // that a sample lasts at least
}

// The bounds of a Config. About 70 vectors are held.
const (
	minElements, maxElements = 1 << 10, 1 << 24
	maxRounds                = 1000
)

// Validate reports every fault, each a *sources.Fault.
func (c Config) Validate() error {
	var errs sources.Faults
	errs.Add(c.Elements < minElements || c.Elements > maxElements, "elements", c.Elements, "allowed: %d to %d",
		minElements, maxElements)
	errs.Add(c.Rounds < 1 || c.Rounds > maxRounds, "iters", c.Rounds, "allowed: 1 to %d", maxRounds)
	return errors.Join(errs...)
}

// began is the origin of a clock that only measures differences.
var began = time.Now()

// sampler is a case under way.
type sampler struct {
	kase
	times               [3]int // calls of a sample: of fast, plain, copies
	fast, plain, copies []float64
	from, to            []byte
}

// Run measures until ctx ends. Progress goes to out, a line.
func Run(ctx context.Context, cfg Config, out io.Writer) (Result, error) {
	a := newArena(cfg.Elements)
	defer kernel.SetFast(kernel.Fast())
	var all []*sampler
	for _, k := range a.cases() {
		all = append(all, &sampler{kase: k, from: a.from[:k.bytes/2], to: a.to[:k.bytes/2]})
	}
	fmt.Fprintf(out, "%d kernels on vectors of %d elements, %d rounds\n", len(all), cfg.Elements, cfg.Rounds)
	for range cfg.Rounds {
		for _, s := range all {
			if err := ctx.Err(); err != nil {
				return Result{}, err
			}
			s.sample(cfg.Sample)
		}
	}
	r := Result{
		Processor: processor(), Architecture: runtime.GOARCH, Fast: kernel.SetFast(true) || kernel.Fast(),
		Elements: cfg.Elements, Rounds: cfg.Rounds,
	}
	for _, s := range all {
		r.Kernels = append(r.Kernels, s.row())
	}
	return r, nil
}

// sample measures each way of the case once.
func (s *sampler) sample(least time.Duration) {
	s.copies = append(s.copies, s.rate(2, least, func() { copy(s.to, s.from) }))
	kernel.SetFast(true)
	s.fast = append(s.fast, s.rate(0, least, s.call))
	if s.kase.plain {
		kernel.SetFast(false)
		s.plain = append(s.plain, s.rate(1, least, s.call))
	}
}

// rate is the bytes a second of some calls, in GB/s. How many a sample takes is found the first
// time.
func (s *sampler) rate(way int, least time.Duration, call func()) float64 {
	call() // from here on the caches hold the data of this kernel
	n := &s.times[way]
	if *n == 0 {
		for *n = 1; timed(*n, call) < least; *n *= 2 {
		}
	}
	took := max(timed(*n, call), 1) // a clock may stand still
	return float64(s.bytes) * float64(*n) / took.Seconds() / 1e9
}

func timed(n int, call func()) time.Duration {
	before := spent()
	for range n {
		call()
	}
	return spent() - before
}

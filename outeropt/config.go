package outeropt

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Names of the optimizers, as a run spec spells them.
const (
	// v = mu*v + g; p -= lr*v (heavy ball); without momentum p -= lr*g
	SGD      = "sgd"
	Nesterov = "nesterov" // v = mu*v + g; p -= lr*(g + mu*v)
	// each contribution b += g; p -= lr*g/N; each N of them v = mu*v + b/N; p -= lr*mu*v; b = 0
	// (arXiv 2401.09135, Algorithm 3)
	DelayedNesterov = "delayed_nesterov"
	// m = b1*m + (1-b1)*g; v = b2*v + (1-b2)*g*g; p -= lr * m/(1-b1^t) / (sqrt(v/(1-b2^t)) + Eps)
	Adam = "adam"
)

// Eps is Adam's term against division by zero, as in PyTorch.
const Eps = 1e-8

var builtin = []string{SGD, Nesterov, DelayedNesterov, Adam}

// Names are the allowed values of Config.Name: the built-in ones, and those that were registered.
func Names() []string {
	names := slices.Clone(builtin)
	for _, c := range customs {
		names = append(names, c.Name)
	}
	return names
}

// Config says which optimizer to use. It is part of the run spec: all peers of a run hold the same
// bits.
type Config struct {
	Name string  // one of Names
	LR   float32 // learning rate, above 0
	// Momentum is at least 0 and below 1: mu, or Adam's b1. With 0 SGD and
	// Nesterov are plain SGD, which has no state.
	Momentum float32
	Beta2    float32 // of Adam alone, above 0 and below 1
	// N of DelayedNesterov alone: contributions from one use of the momentum to the next, about as
	// many as peers contribute to a step
	Every uint64
}

// Validate reports every fault of the configuration at once.
func (c Config) Validate() error {
	var faults []error
	if !slices.Contains(Names(), c.Name) {
		faults = append(faults, fmt.Errorf("outer optimizer %.40q is not known: use one of %s", c.Name,
			strings.Join(Names(), ", ")))
	}
	if !(c.LR > 0 && c.LR <= math.MaxFloat32) {
		faults = append(faults, fmt.Errorf("outer learning rate is %v: use a finite number above 0", c.LR))
	}
	if !(c.Momentum >= 0 && c.Momentum < 1) {
		faults = append(faults, fmt.Errorf("outer momentum is %v: use a number of at least 0 and below 1", c.Momentum))
	}
	if c.Name == Adam && !(c.Beta2 > 0 && c.Beta2 < 1) {
		faults = append(faults, fmt.Errorf("outer beta2 is %v: use a number above 0 and below 1", c.Beta2))
	}
	if c.Name == DelayedNesterov && c.Every == 0 {
		faults = append(faults, errors.New("delayed Nesterov takes its momentum every 0 contributions: use at least 1"))
	}
	return errors.Join(faults...)
}

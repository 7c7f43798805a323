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
	SGD      = "sgd"      // v = mu*v + g; p -= lr*v (heavy ball); without momentum p -= lr*g
	Nesterov = "nesterov" // v = mu*v + g; p -= lr*(g + mu*v)
)

// Names are the allowed values of Config.Name.
func Names() []string { return []string{SGD, Nesterov} }

// Config says which optimizer to use. It is part of the run spec: all peers of a run hold the same bits.
type Config struct {
	Name     string  // one of Names
	LR       float32 // learning rate, above 0
	Momentum float32 // at least 0 and below 1; 0 makes either optimizer plain SGD, which has no state
}

// Validate reports every fault of the configuration at once.
func (c Config) Validate() error {
	var faults []error
	if !slices.Contains(Names(), c.Name) {
		faults = append(faults, fmt.Errorf("outer optimizer %.40q is not known: use one of %s", c.Name, strings.Join(Names(), ", ")))
	}
	if !(c.LR > 0 && c.LR <= math.MaxFloat32) {
		faults = append(faults, fmt.Errorf("outer learning rate is %v: use a finite number above 0", c.LR))
	}
	if !(c.Momentum >= 0 && c.Momentum < 1) {
		faults = append(faults, fmt.Errorf("outer momentum is %v: use a number of at least 0 and below 1", c.Momentum))
	}
	return errors.Join(faults...)
}

package outeropt

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
)

// Custom is an outer optimizer that a program brings. A run names it in Spec.Outer, and its version
// in Spec.Kernel, so a peer whose program lacks it, or has another version, is refused with that
// reason. Modes eager and async refuse it: they take a peer's own part of a step ahead.
type Custom struct {
	Name    string // of small letters, digits and _, 32 at most; not one of the built-in ones
	Version uint32 // from 1; another one with each change of the arithmetic
	Vectors int    // of state, 0 to 16; zeros in the beginning, and a part of the state root
	// Step updates params in place with grad, the reduced pseudo-gradient, and state[i], the same
	// elements of each vector of state. It leaves grad as it is. It must be elementwise, a function
	// of its arguments alone, and give the same bits on every machine: round each operation on its
	// own, float32(a*b)+c, for the compiler may fuse a*b+c. It is called from several goroutines,
	// on elements that do not overlap.
	Step func(params, grad []float32, state [][]float32, cfg Config, at At)
	// Golden is what Fingerprint returned where the optimizer was written. Register compares it on
	// each machine that the program runs on.
	Golden string
}

var customs []Custom // in the order of their registration

var customName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)

// Register makes an optimizer known to this program. It is called where the program begins, before
// anything else of this module: nothing guards it against calls of other functions at the same
// time. The error says what is wrong with the optimizer, every fault at once, or that this machine
// computes other bits than those of Golden.
func Register(c Custom) error {
	if err := c.validate(); err != nil {
		return fmt.Errorf("outer optimizer %.40q: %w", c.Name, err)
	}
	if slices.ContainsFunc(customs, func(o Custom) bool { return o.Name == c.Name }) {
		return fmt.Errorf("outer optimizer %q is registered already", c.Name)
	}
	customs = append(customs, c)
	return nil
}

// Registered returns the optimizer that was registered by a name.
func Registered(name string) (c Custom, ok bool) {
	i := slices.IndexFunc(customs, func(o Custom) bool { return o.Name == name })
	if i < 0 {
		return Custom{}, false
	}
	return customs[i], true
}

func (c Custom) validate() error {
	var faults []error
	if !customName.MatchString(c.Name) || slices.Contains(builtin, c.Name) {
		faults = append(faults,
			errors.New("a name has small letters, digits and _, at most 32, and is not a built-in one"))
	}
	if c.Version == 0 {
		faults = append(faults, errors.New("version 0: versions count from 1"))
	}
	if c.Vectors < 0 || c.Vectors > 16 {
		faults = append(faults, fmt.Errorf("%d vectors of state: 0 to 16 are allowed", c.Vectors))
	}
	if c.Step == nil {
		faults = append(faults, errors.New("it has no Step"))
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	got, err := c.Fingerprint()
	if err == nil && got != c.Golden {
		err = fmt.Errorf("this machine computes bits whose fingerprint is %s, and Golden is %q: use float32(a*b) "+
			"around products, and no function of package math whose bits differ from machine to machine", got,
			c.Golden)
	}
	return err
}

// Fingerprint is the SHA-256 of what some steps from fixed values give, for Golden. The error says
// that Step is not elementwise, changes grad, or makes values that are not finite.
func (c Custom) Fingerprint() (string, error) {
	const elements, split = 4099, 1000
	cfg := Config{Name: c.Name, LR: 0.7, Momentum: 0.9, Beta2: 0.99, Every: 4}
	params, grad := make([]float32, elements), make([]float32, elements)
	noise := uint32(1)
	fill := func(v []float32, unit float32) {
		for j := range v {
			noise = noise*1664525 + 1013904223
			v[j] = float32(int32(noise)>>12) / unit
		}
	}
	fill(params, 1<<16)
	given := make([]float32, elements)
	whole := Optimizer{rule: c, cfg: cfg, elements: elements}
	parts := whole
	for range c.Vectors {
		whole.state = append(whole.state, make([]float32, elements))
		parts.state = append(parts.state, make([]float32, elements))
	}
	again := slices.Clone(params)
	for step := range uint64(6) {
		fill(grad, 1<<20)
		for j := range grad { // zeros are the rule with codec topk
			grad[j] *= [...]float32{1, 0, 0x1p-60, 0x1p40}[j%4]
		}
		copy(given, grad)
		at := At{Step: step + 1, Contributions: 3}
		whole.Step(params, grad, at)
		parts.Step(again[:split], grad[:split], at)
		at.Offset = split
		parts.Step(again[split:], grad[split:], at)
		if !slices.Equal(grad, given) {
			return "", errors.New("Step has changed grad, which others read, too: it may write to params and state")
		}
	}
	h := sha256.New()
	inParts := append([][]float32{again}, parts.state...)
	for i, v := range append([][]float32{params}, whole.state...) {
		for j, x := range v {
			if math.Float32bits(inParts[i][j]) != math.Float32bits(x) {
				return "", fmt.Errorf("a vector that is stepped in two parts has other bits at element %d: Step is "+
					"not elementwise, or not a function of its arguments alone", j)
			}
			if x-x != 0 {
				return "", fmt.Errorf("element %d is %v after some steps", j, x)
			}
		}
		_ = binary.Write(h, binary.LittleEndian, v)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

package nodetest

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/builtin"
)

// The flags of TestTable. Without -attacks it tries one at tiny sizes, in seconds.
var (
	attacksFlag = flag.String("attacks", "", "`attacks` to measure, like flip-10,owner-1, or all")
	badFlag     = flag.String("bad", "", "`numbers` of bad peers of eight, like 1,2,3")
	foundFlag   = flag.Int("founders", 0, "`number` that four bad strangers join; 0: the bad peers are of the eight")
	modesFlag   = flag.String("modes", "", "`modes` of the run, like sync,async,streaming")
	codecFlag   = flag.String("codec", "", "`codec` of the runs, like topk, which sets their outer step, too")
	slotsFlag   = flag.Uint64("slots", 0, "slots to train; attacks begin in slot 4")
	seedsFlag   = flag.Uint64("seeds", 0, "how many times everything is done, each time with other data")
)

// config says what to measure.
type config struct {
	attacks  []attack
	bad      []int
	founders int // that strangers join; 0: no strangers
	modes    []string
	codec    string
	slots    uint64
	seeds    uint64
	honest   uint64 // seeds of honest runs at least: how far these lie apart is the measure
	inner    uint64
	warm     int // data-parallel steps of the common start
	model    builtin.Config
	data     string // text to train on; empty: the Go standard library's source
}

// fromFlags is what the flags say.
func fromFlags() (c config, err error) {
	c = config{
		codec: *codecFlag, founders: *foundFlag, slots: 16, seeds: 1, honest: 3, inner: 10, warm: 300,
		model: builtin.Config{Layers: 1, Width: 32, Heads: 4, Context: 16, Batch: 8, HeldOut: 256},
	}
	chosen, bad, modes := "all", "1,2", "sync"
	if *attacksFlag == "" {
		c.slots, c.honest, c.inner, c.warm, c.data = 7, 1, 2, 20, "../../docs"
		c.model = builtin.Config{Layers: 1, Width: 16, Heads: 2, Context: 8, Batch: 2, HeldOut: 32}
		chosen, bad = "owner-1", "1"
	}
	set := func(to *string, given string) {
		if given != "" {
			*to = given
		}
	}
	set(&chosen, *attacksFlag)
	set(&bad, *badFlag)
	set(&modes, *modesFlag)
	if *slotsFlag > 0 {
		c.slots = *slotsFlag
	}
	if *seedsFlag > 0 {
		c.seeds = *seedsFlag
	}
	if c.founders > 0 {
		c.bad = []int{strangers}
		err = errors.Join(c.chooseAttacks(chosen), c.chooseModes(modes))
		// of strangers all must be named, and nothing else is asked for
		for i, a := range c.attacks {
			c.attacks[i] = attack{kind: a.kind}
		}
		return c, err
	}
	return c, errors.Join(c.chooseAttacks(chosen), c.chooseBad(bad), c.chooseModes(modes))
}

func (c *config) chooseAttacks(list string) error {
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(attacks, func(a attack) bool { return a.kind == name })
		switch {
		case name == "all":
			c.attacks = slices.Clone(attacks)
		case i < 0:
			return fmt.Errorf("-attacks %q: allowed: all, %s", name, strings.Join(names(), ", "))
		default:
			c.attacks = append(c.attacks, attacks[i])
		}
	}
	return nil
}

func (c *config) chooseBad(list string) error {
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > 3 {
			return fmt.Errorf("-bad %q: allowed: 1, 2, 3", word)
		}
		c.bad = append(c.bad, n)
	}
	return nil
}

func (c *config) chooseModes(list string) error {
	allowed := []string{p2pdiloco.ModeSync, p2pdiloco.ModeAsync, p2pdiloco.ModeStreaming}
	for mode := range strings.SplitSeq(list, ",") {
		if !slices.Contains(allowed, mode) {
			return fmt.Errorf("-modes %q: allowed: %s", mode, strings.Join(allowed, ", "))
		}
		c.modes = append(c.modes, mode)
	}
	return nil
}

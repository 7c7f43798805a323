package attacks

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
	modesFlag   = flag.String("modes", "", "`modes` of the run, like sync,async,streaming")
	slotsFlag   = flag.Uint64("slots", 0, "slots to train; attacks begin in slot 4")
	seedsFlag   = flag.Uint64("seeds", 0, "how many times everything is done, each time with other data")
	jsonFlag    = flag.Bool("json", false, "print one JSON document, after a line of its own that says so")
)

// config says what to measure.
type config struct {
	attacks []attack
	bad     []int
	modes   []string
	slots   uint64
	seeds   uint64
	honest  uint64 // seeds of honest runs at least: how far these lie apart is the measure
	inner   uint64
	warm    int // data-parallel steps of the common start
	model   builtin.Config
	data    string // text to train on; empty: the Go standard library's source
	json    bool
}

// fromFlags is what the flags say.
func fromFlags() (c config, err error) {
	c = config{
		slots: 16, seeds: 1, honest: 3, inner: 10, warm: 300, json: *jsonFlag,
		model: builtin.Config{Layers: 1, Width: 32, Heads: 4, Context: 16, Batch: 8, HeldOut: 256},
	}
	chosen, bad, modes := "all", "1,2", "sync"
	if *attacksFlag == "" {
		c.slots, c.inner, c.warm, c.data = 8, 2, 20, "../../../docs"
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
	return c, errors.Join(c.chooseAttacks(chosen), c.chooseBad(bad), c.chooseModes(modes))
}

func (c *config) chooseAttacks(list string) error {
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(attacks, func(a attack) bool { return a.name == name })
		switch {
		case name == "all":
			c.attacks = attacks
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

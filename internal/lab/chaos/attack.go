package chaos

import (
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/hostile"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// drawThree draws three kinds of hostile peers, in the order of their table.
func drawThree(seed uint64) (names lab.Names[string]) {
	all := hostile.Names()
	drawn := rand.New(rand.NewPCG(seed, 0x61_74_74_61_63_6b)).Perm(len(all))[:3]
	slices.Sort(drawn)
	for _, i := range drawn {
		names = append(names, all[i])
	}
	return names
}

// Words of --hostile for several kinds.
const (
	allAttacks   = "all"
	threeAttacks = "three" // as the seed draws them
)

// ParseAttacks reads a list like "mute,grab" that --hostile was given. "all" stands for all kinds,
// "three" for some that the seed draws.
func ParseAttacks(list string, seed uint64) (names lab.Names[string], err error) {
	for word := range strings.SplitSeq(list, ",") {
		some := []string{strings.TrimSpace(word)}
		switch {
		case some[0] == allAttacks:
			some = hostile.Names()
		case some[0] == threeAttacks:
			some = drawThree(seed)
		case !slices.Contains(hostile.Names(), some[0]):
			return nil, sources.Faultf("hostile", list, "%q is none of %v, %s, %s", some[0],
				lab.Names[string](hostile.Names()), allAttacks, threeAttacks)
		}
		for _, a := range some {
			if !slices.Contains(names, a) {
				names = append(names, a)
			}
		}
	}
	return names, nil
}

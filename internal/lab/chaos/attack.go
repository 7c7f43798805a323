package chaos

import (
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/lab/hostile"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// ParseAttacks reads a list like "mute,grab" that --hostile was given, in the order of the table of
// kinds. "all" stands for all kinds, "three" for some that the seed draws.
func ParseAttacks(list string, seed uint64) ([]hostile.Kind, error) {
	all := hostile.Kinds()
	wanted := map[string]bool{}
	for word := range strings.SplitSeq(list, ",") {
		word = strings.TrimSpace(word)
		switch _, known := hostile.Find(word); {
		case known:
			wanted[word] = true
		case word == "all":
			for _, k := range all {
				wanted[k.Name] = true
			}
		case word == "three":
			for _, i := range rand.New(rand.NewPCG(seed, 0)).Perm(len(all))[:3] {
				wanted[all[i].Name] = true
			}
		default:
			return nil, sources.Faultf("hostile", list, "%q is no attack: p2plab chaos --help lists all", word)
		}
	}
	return slices.DeleteFunc(all, func(k hostile.Kind) bool { return !wanted[k.Name] }), nil
}

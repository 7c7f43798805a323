package chaos

import (
	"math/rand/v2"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/hostile"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// ParseAttacks reads a list like "mute,grab" that --hostile was given, in the order of the table of
// kinds. "all" stands for all kinds, "three" for some that the seed draws.
func ParseAttacks(list string, seed uint64) ([]hostile.Kind, error) {
	all := hostile.Kinds()
	switch list {
	case "all":
		return all, nil
	case "three":
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		return all[:3], nil
	}
	var wanted lab.Names[string]
	_ = wanted.Set(list) // it takes any
	for _, name := range wanted {
		if _, known := hostile.Find(name); !known {
			return nil, sources.Faultf("hostile", list, "%q is no attack: p2plab chaos --help lists all", name)
		}
	}
	return slices.DeleteFunc(all, func(k hostile.Kind) bool { return !slices.Contains(wanted, k.Name) }), nil
}

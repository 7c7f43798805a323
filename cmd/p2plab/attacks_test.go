package main

import (
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/lab/chaos"
)

// An attack without a word in the help can be asked for by nobody, and one that is gone misleads.
func TestTheHelpExplainsEveryAttack(t *testing.T) {
	for _, a := range chaos.Attacks() {
		if deeds[a] == "" {
			t.Errorf("chaos --help does not say what %s does", a)
		}
	}
	for a := range deeds {
		if !slices.Contains(chaos.Attacks(), a) {
			t.Errorf("chaos --help has the attack %s, which there is none of", a)
		}
	}
}

package lab

import (
	"strings"
	"testing"
)

// TestRulesAreWhole: no word of the frame is left where something should stand.
func TestRulesAreWhole(t *testing.T) {
	for _, k := range []Site{FullCone, PortRestricted, Symmetric, NoUDP} {
		text := routerRules(k)
		for _, word := range []string{"INWARDS", "LEAVING", "MASQUERADE"} {
			if strings.Contains(text, word) {
				t.Errorf("%s: %s is left", k, word)
			}
		}
		for word, only := range map[string]Site{"fully-random": Symmetric, "udp drop": NoUDP, "dnat to": FullCone} {
			if strings.Contains(text, word) != (k == only) {
				t.Errorf("%s: %q is there or not, against its kind:\n%s", k, word, text)
			}
		}
	}
}

package sources

import "testing"

func TestNearest(t *testing.T) {
	names := []string{"rounds", "run", "inner-steps", "model", "config", "data"}
	for name, want := range map[string]string{
		"rouns": "rounds", "roudns": "rounds", "inner": "inner-steps", "in": "inner-steps", "iner-step": "inner-steps",
		"ru":    "run",
		"codec": "", "name": "", "x": "", "": "", "r": "", "wibble": "",
	} {
		if got := Nearest(name, names); got != want {
			t.Errorf("%s is taken for %q, not %q", name, got, want)
		}
	}
}

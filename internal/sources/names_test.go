package sources

import "testing"

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"agregator", "aggregator", 1}, {"same", "same", 0}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

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

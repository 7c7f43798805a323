package sources

import "testing"

func TestRate(t *testing.T) {
	for text, want := range map[string]Rate{"20mbit": 20e6, "1.5gbit": 15e8, "64kbit": 64e3, "1kbit": 1000} {
		var r Rate
		if err := r.Set(text); err != nil || r != want || r.String() != text {
			t.Errorf("%s: %d, %q, %v", text, r, r, err)
		}
	}
	for _, text := range []string{
		"", "20", "mbit", "-1mbit", "0mbit", "101gbit", "NaNmbit", "Infgbit", "20mbits",
		"0.5kbit",
	} {
		if err := new(Rate).Set(text); err == nil {
			t.Errorf("%q was taken for a rate", text)
		}
	}
}

func FuzzRate(f *testing.F) {
	for _, s := range []string{"20mbit", "1.5gbit", "64kbit", "1e3kbit", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var r, again Rate
		if r.Set(s) != nil {
			return
		}
		if r < 1000 || r > maxRate || again.Set(r.String()) != nil || again != r {
			t.Errorf("%q is %d, written %q, read again %d", s, r, r, again)
		}
	})
}

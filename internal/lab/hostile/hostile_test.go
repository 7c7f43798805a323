package hostile

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestKinds: each kind has a name of its own and says what it does, and no others are accepted.
func TestKinds(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Kinds() {
		if k.Does == "" || seen[k.Name] {
			t.Errorf("kind %q: %q", k.Name, k.Does)
		}
		seen[k.Name] = true
	}
	if _, known := Find("polite"); known {
		t.Error("a kind that nobody knows was accepted")
	}
}

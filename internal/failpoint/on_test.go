//go:build failpoints

package failpoint

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/failpoint/order"
)

// passed is what the process of TestHere prints once it is past the place.
const passed = "past the place"

// TestMain is the process of TestHere if the environment has an order, and of TestNow if it has a
// clock.
func TestMain(m *testing.M) {
	if os.Getenv(order.Clock) != "" {
		fmt.Println(time.Until(Now()).Round(time.Minute))
		return
	}
	if os.Getenv(order.Variable) != "" {
		Here(Applied)
		fmt.Println(passed)
		return
	}
	os.Exit(m.Run())
}

// TestHere: a process does what it is told, at its place alone.
func TestHere(t *testing.T) {
	for _, c := range []struct {
		order string
		past  bool
		said  string
	}{
		{"applied crash", false, "failpoint applied: applied crash"},
		{"applied sleep 1ms", true, "failpoint applied: applied sleep"},
		{"log-half crash", true, ""},
		{"applied vanish", false, "is no order: write PLACE crash"},
	} {
		path := filepath.Join(t.TempDir(), "order")
		if err := os.WriteFile(path, []byte(c.order), 0o600); err != nil {
			t.Fatal(err)
		}
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), order.Variable+"="+path)
		cmd.WaitDelay = time.Minute
		out, err := cmd.CombinedOutput()
		if past := strings.Contains(string(out), passed); past != c.past || past != (err == nil) ||
			!strings.Contains(string(out), c.said) {
			t.Errorf("%s: %v, %s", c.order, err, out)
		}
	}
}

// TestNow: a process has the clock that it was given.
func TestNow(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for by, want := range map[string]string{"90m": "1h30m0s", "-90m": "-1h30m0s", "soon": "is no time: write 90m"} {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), order.Clock+"="+by)
		out, err := cmd.CombinedOutput()
		if !strings.Contains(string(out), want) || (err != nil) != (by == "soon") {
			t.Errorf("%s: %v, %s", by, err, out)
		}
	}
	if off := time.Until(Now()).Round(time.Minute); off != 0 {
		t.Errorf("without an order the clock is %s off", off)
	}
}

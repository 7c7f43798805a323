package machine

import "testing"

func TestHolds(t *testing.T) {
	if err := Holds(1 << 20); err != nil {
		t.Errorf("a small model: %v", err)
	}
	if err := Holds(1 << 40); err == nil && physical() > 0 {
		t.Error("a model of 4 TiB was not refused")
	}
}

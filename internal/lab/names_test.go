package lab

import "testing"

func TestNamesAreReadAsWritten(t *testing.T) {
	n := Names[string]{"old"}
	for text, want := range map[string]string{"": "", "a": "a", " b, a,,b ": "b,a,b"} {
		if err := n.Set(text); err != nil || n.String() != want {
			t.Errorf("%q was read as %q, %v", text, n, err)
		}
	}
}

package nat

import (
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

func TestValidateReportsAllFaults(t *testing.T) {
	err := Config{
		Sites: []Site{{Kind: Public}, {Kind: "moat"}, {Kind: Symmetric, LAN: 255}},
		Hosts: []int{0, 0, 3, 1, 1},
		Link:  lab.Link{Delay: -time.Second},
	}.Validate()
	for _, want := range []string{
		`site 1 is "moat": allowed: public,full-cone`, "site 2 has LAN 255",
		"site 0 is public and has two hosts", "host 2 is at site 3: there are 3", "delay -1s",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if err := (Config{}).Validate(); err == nil || !strings.Contains(err.Error(), "0 sites") {
		t.Error(err)
	}
	if err := (Config{Sites: []Site{{Kind: Public}, {Kind: NoUDP}}, Hosts: []int{0, 1, 1}}).Validate(); err != nil {
		t.Error(err)
	}
}

// TestRulesAreWhole: no word of the frame is left where something should stand.
func TestRulesAreWhole(t *testing.T) {
	for _, k := range Kinds {
		text := rules(k, "dev7")
		for _, word := range []string{"OUTER", "INWARDS", "LEAVING", "MASQUERADE"} {
			if strings.Contains(text, word) {
				t.Errorf("%s: %s is left", k, word)
			}
		}
		for word, only := range map[string]Kind{"fully-random": Symmetric, "udp drop": NoUDP, "dnat to": FullCone} {
			if strings.Contains(text, word) != (k == only) {
				t.Errorf("%s: %q is there or not, against its kind:\n%s", k, word, text)
			}
		}
	}
}

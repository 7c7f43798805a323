package lab

import (
	"strings"
	"testing"
)

// The bucket's rate lets through as many full IP packets a second as the link's rate says, and
// holds two of the largest packets.
func TestBucket(t *testing.T) {
	for rate, want := range map[int64]string{
		200e6: "tbf rate 201866666bit burst 32768b limit 2532768b",
		150e3: "tbf rate 151400bit burst 32768b limit 98304b",
		10e9:  "tbf rate 10093333333bit burst 1261666b limit 126261666b",
	} {
		if got := (Config{Link: Link{Rate: rate}}).withDefaults().bucket(); got != want {
			t.Errorf("%d bit/s: %s, want %s", rate, got, want)
		}
	}
}

// Every node has one address, that of a Lab's node, and a pair of its own.
func TestScriptsOfWires(t *testing.T) {
	cfg := Config{Nodes: 2}.withDefaults()
	script := bridgeScript(cfg, []Space{"a", "b"})
	for _, want := range []string{
		"add port0 mtu 1500 type veth peer name lab0 mtu 1500 netns a\n",
		"peer name lab0 mtu 1500 netns b\n", "set port1 addrgenmode none gso_max_size 16384 master bridge0 up\n",
	} {
		if !strings.Contains(script, want) {
			t.Errorf("no %q in\n%s", want, script)
		}
	}
	if node := nodeScript(cfg, 1); !strings.Contains(node, "addr add 10.213.0.2/16 dev lab0\n") {
		t.Error(node)
	}
}

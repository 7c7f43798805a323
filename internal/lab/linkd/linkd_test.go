package linkd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// notes is a network of four nodes that writes down what it was told.
type notes struct{ calls []string }

func (n *notes) add(format string, args ...any) error {
	n.calls = append(n.calls, fmt.Sprintf(format, args...))
	return nil
}

func (n *notes) Nodes() int                         { return 4 }
func (n *notes) Describe(i int) string              { return fmt.Sprint("space-", i) }
func (n *notes) SetLink(i int, link lab.Link) error { return n.add("link %d %s", i, formatLink(link)) }
func (n *notes) SetPair(i, j int, link lab.Link) error {
	return n.add("pair %d %d %s", i, j, formatLink(link))
}
func (n *notes) Cut(nodes ...int) error          { return n.add("cut %d", nodes) }
func (n *notes) CutPair(i, j int) error          { return n.add("cutpair %d %d", i, j) }
func (n *notes) Partition(groups ...[]int) error { return n.add("partition %d", groups) }
func (n *notes) Heal(nodes ...int) error         { return n.add("heal %d", nodes) }
func (n *notes) Stats(i int) lab.Stats           { return lab.Stats{SentBytes: uint64(1000 + i)} }

func TestCommands(t *testing.T) {
	n := &notes{}
	c := newControl(n, lab.Link{Rate: 1e6, Delay: time.Millisecond})
	for _, line := range []string{
		"cut n1 n4", "cutpair n2 n1", "partition n1,n2 n3", "heal", "heal n2",
		"link n2 rate=2.5mbit loss=1.5%", "link n2 delay=30ms jitter=2ms", "link all rate=none queue=9000 reorder=true",
		"pair n3 n1 delay=1s", "pair n3 n1",
	} {
		if _, err := c.do(line); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	want := []string{
		"cut [0 3]", "cutpair 1 0", "partition [[0 1] [2]]", "heal []", "heal [1]",
		"link 1 rate=2500000 delay=1ms jitter=0s loss=15 queue=0 reorder=false",
		"link 1 rate=2500000 delay=30ms jitter=2ms loss=15 queue=0 reorder=false",
		"link 0 rate=none delay=1ms jitter=0s loss=0 queue=9000 reorder=true",
		"link 1 rate=none delay=30ms jitter=2ms loss=15 queue=9000 reorder=true",
		"link 2 rate=none delay=1ms jitter=0s loss=0 queue=9000 reorder=true",
		"link 3 rate=none delay=1ms jitter=0s loss=0 queue=9000 reorder=true",
		"pair 2 0 rate=none delay=1s jitter=0s loss=0 queue=0 reorder=false",
		"pair 2 0 rate=none delay=0s jitter=0s loss=0 queue=0 reorder=false",
	}
	if got := strings.Join(n.calls, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("the network was told\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	text, err := c.do("stats")
	if err != nil || !strings.Contains(text, "n4    1003") || !strings.Contains(text, "loss=15") {
		t.Errorf("stats: %v\n%s", err, text)
	}
}

func TestWrongCommandsChangeNothing(t *testing.T) {
	n := &notes{}
	c := newControl(n, lab.Link{})
	for line, want := range map[string]string{
		"":                         "no command",
		"fly":                      `unknown command "fly"`,
		"cut":                      "want cut NODE",
		"cut n5":                   `no node "n5": they are n1 to n4`,
		"cut 1":                    `no node "1"`,
		"heal n0":                  `no node "n0"`,
		"cutpair n1":               "cutpair NODE NODE",
		"partition":                "want partition",
		"partition n1,":            `no node ""`,
		"link n1":                  "want link NODE",
		"link rate=1mbit":          "want link NODE",
		"link all n1 rate=1mbit":   `no node "all"`,
		"link n1 rate=fast":        "want a rate such as",
		"link n1 rate=-1":          "want a rate such as",
		"link n1 rate=NaN":         "want a rate such as",
		"link n1 rate=7":           "rate 7 bit/s",
		"link n1 loss=0.5":         "want packets of a thousand",
		"link n1 loss=101%":        "loss 1010: from 0 to 1000",
		"link n1 loss=5 speed=1":   "settings of a link are",
		"link n1 delay":            "want link NODE",
		"link n1 rate=1mbit delay": "want KEY=VALUE",
		"link n1 delay=1h":         "delay 1h0m0s: from 0",
		"pair n1 n9 delay=1s":      `no node "n9"`,
		"pair n1 n2 delay=fast":    "delay=fast",
	} {
		if _, err := c.do(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v does not say %q", line, err, want)
		}
	}
	if len(n.calls) != 0 {
		t.Errorf("the network was told %q", n.calls)
	}
}

func TestSettingsOfTheNetwork(t *testing.T) {
	cfg, err := parseConfig([]string{"rate=1gbit", "mtu=9000", "seed=5", "network=10.9.0.0/24", "loss=2%"})
	if err != nil || cfg.MTU != 9000 || cfg.Seed != 5 || cfg.Network.String() != "10.9.0.0/24" ||
		cfg.Link != (lab.Link{Rate: 1e9, Loss: 20}) {
		t.Errorf("%+v, %v", cfg, err)
	}
	for _, wrong := range []string{"mtu=x", "seed=-1", "network=here", "nodes=4"} {
		if _, err := parseConfig([]string{wrong}); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

// FuzzCommands: no line breaks the control, and a line that changes a link is written back as one
// that sets the same.
func FuzzCommands(f *testing.F) {
	for _, line := range []string{
		"nodes", "stats", "cut n1 n2", "partition n1,n2 n3", "link n1 rate=1mbit loss=1%",
		"pair n1 n2 delay=1s", "link all " + formatLink(lab.Link{Rate: 1e6}),
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		c := newControl(&notes{}, lab.Link{})
		_, _ = c.do(line)
		for _, link := range c.mu.links {
			if again, err := parseLink(lab.Link{}, strings.Fields(formatLink(link))); err != nil || again != link {
				t.Errorf("%q set %+v, which is read as %+v, %v", line, link, again, err)
			}
		}
	})
}

// TestSocket asks over a real socket: answers, a refusal, a second server, and the end.
func TestSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	c := newControl(&notes{}, lab.Link{})
	listener, err := listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { defer close(served); serve(t.Context(), listener, c) }()
	var out strings.Builder
	if err := Ask(t.Context(), path, "nodes", &out); err != nil ||
		out.String() != "n1 space-0\nn2 space-1\nn3 space-2\nn4 space-3\n" {
		t.Errorf("%v\n%s", err, &out)
	}
	if err := Ask(t.Context(), path, "cut n9", &out); err == nil || err.Error() != `no node "n9": they are n1 to n4` {
		t.Errorf("refused with %v", err)
	}
	if _, err := listen(t.Context(), path); err == nil || !strings.Contains(err.Error(), "another lab") {
		t.Errorf("a second one listens: %v", err)
	}
	if err := Ask(t.Context(), path, "down", &out); err != nil {
		t.Error(err)
	}
	<-served
	if err := Ask(t.Context(), path, "nodes", &out); err == nil || !strings.Contains(err.Error(), "is the lab up?") {
		t.Errorf("after the end: %v", err)
	}
}

// TestUp makes a network of one node where that is allowed, and is told why elsewhere. It ends with
// its context.
func TestUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out strings.Builder
	err := Up(ctx, "1", filepath.Join(t.TempDir(), "socket"), []string{"rate=1mbit"}, writer(func(text string) {
		out.WriteString(text)
		cancel()
	}))
	switch {
	case err == nil:
		if !strings.Contains(out.String(), "n1 p2plab-") || !strings.HasSuffix(out.String(), " 10.213.0.1\nready\n") {
			t.Errorf("printed %q", &out)
		}
	case errors.Is(err, lab.ErrNotRoot), errors.Is(err, errors.ErrUnsupported),
		strings.Contains(err.Error(), "modprobe tun"):
		t.Log("no lab here, only the error was checked:", err)
	default:
		t.Error(err)
	}
	for _, wrong := range [][]string{{"x"}, {"0"}, {"1", "rate=x"}} {
		if err := Up(t.Context(), wrong[0], "s", wrong[1:], &out); err == nil {
			t.Errorf("%q was taken", wrong)
		}
	}
}

type writer func(text string)

func (w writer) Write(p []byte) (int, error) {
	w(string(p))
	return len(p), nil
}

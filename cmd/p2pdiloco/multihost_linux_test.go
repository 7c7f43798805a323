package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

// multihost has scripts, which are tested against folders of this machine in place of hosts, and a
// stand-in for the program.
const multihost = "../../examples/multihost/"

// TestRootsAreCompared runs roots.sh on logs of two peers.
func TestRootsAreCompared(t *testing.T) {
	applied := func(slot int, root string) string {
		return fmt.Sprintf(`{"event":"slot.applied","height":9,"peer":"x","slot":%d,"state_root":%q,"time":"now"}`+"\n",
			slot, root)
	}
	switched := `{"detail":"to another chain","event":"run.switched","slot":1}` + "\n"
	for _, test := range []struct {
		name, a, b, want string
		fails            bool
	}{
		{
			"equal", applied(1, "aa") + applied(2, "bb"), applied(1, "aa") + applied(2, "bb"),
			"after each of 2 slots; newest 2: bb", false,
		},
		{"one ahead", applied(9, "aa") + applied(10, "bb"), applied(9, "aa"), "newest 10: bb", false},
		{
			"one joined late", applied(1, "aa") + applied(2, "bb"),
			strings.ReplaceAll(applied(2, "bb"), "slot.applied", "state.synced"), "after each of 2 slots", false,
		},
		{
			"different", applied(1, "aa") + applied(2, "bb"), applied(1, "ab") + applied(2, "bb"), "state roots DIFFER",
			true,
		},
		{
			"what a peer left behind does not count", applied(1, "aa") + applied(2, "bb"),
			applied(1, "ff") + switched + applied(1, "aa"), "after each of 2 slots", false,
		},
		{
			"other events' roots do not count", applied(1, "aa"),
			strings.ReplaceAll(applied(1, "bb"), "slot.applied", "run.done"), "after each of 1 slots", false,
		},
		{"nothing", "", switched, "no event log tells", true},
	} {
		dir := t.TempDir()
		a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
		write(t, a, test.a)
		write(t, b, test.b)
		out, err := exec.Command(multihost+"roots.sh", a, b).CombinedOutput()
		if (err != nil) != test.fails || !strings.Contains(string(out), test.want) {
			t.Errorf("%s: %v\n%s", test.name, err, out)
		}
	}
}

// standIn behaves like p2pdiloco as far as the scripts see. Its root is the word in the file `root`
// of its folder.
const standIn = `#!/bin/sh
leave() {
	printf '{"ended":false,"slot":3,"state_root":"%s","loss_last":2.5}\n' "$(cat root)"
	exit 0
}
case $1 in
bootstrap)
	trap 'exit 0' TERM
	echo /ip4/127.0.0.1/tcp/4001/p2p/ID >bootstrap.addr
	;;
join)
	trap leave TERM
	echo "$@" >arguments
	printf '{"event":"slot.applied","slot":3,"state_root":"%s"}\n' "$(cat root)" >>events.jsonl
	mkdir -p peer
	echo 127.0.0.1:1 >peer/api
	;;
status)
	while [ ! -e peer/api ]; do sleep 0.1; done # the peer has begun
	printf '{"phase":"running","slot":3,"state_root":"%s","last_slot":9,' "$(cat root)"
	echo '"members":[{"state":"training"},{"state":"late"}]}'
	exit
	;;
esac
i=0
while [ $i -lt 600 ]; do
	sleep 0.1
	i=$((i + 1))
done
`

// hosts are folders, and a command that runs others in them as ssh would on hosts.
type hosts struct {
	t   *testing.T
	dir string
}

func newHosts(t *testing.T) *hosts {
	h := &hosts{t, t.TempDir()}
	write(t, h.path("hosts.txt"), "# two\nann@one 192.0.2.1\n\ntwo\n")
	script(t, h.path("ssh"), "#!/bin/sh\ncd \"$(dirname \"$0\")/$1\" && shift && exec sh -c \"$*\"\n")
	script(t, h.path("p2pdiloco"), standIn)
	for name, root := range map[string]string{"ann@one": "aaaa", "two": "aaaa"} {
		if err := os.MkdirAll(h.path(name, "its folder"), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, h.path(name, "its folder", "root"), root)
	}
	t.Cleanup(func() { _, _ = h.run("stop") })
	return h
}

func (h *hosts) path(parts ...string) string {
	return filepath.Join(append([]string{h.dir}, parts...)...)
}

func (h *hosts) run(args ...string) (string, error) {
	cmd := exec.Command(multihost+"swarm.sh", args...)
	cmd.Env = append(os.Environ(), "HOSTS="+h.path("hosts.txt"), "OUT="+h.path("out"), "SSH="+h.path("ssh"),
		"BINARY="+h.path("p2pdiloco"),
		"DATA="+h.path("hosts.txt"), "REMOTE_DIR=its folder", "RUN=a run", "STOP_WAIT=20", "WAIT=0")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// expect runs a command that must succeed and print all of want.
func (h *hosts) expect(args string, want ...string) {
	h.t.Helper()
	out, err := h.run(strings.Fields(args)...)
	if err != nil {
		h.t.Errorf("%s: %v\n%s", args, err, out)
	}
	for _, w := range want {
		if !strings.Contains(out, w) {
			h.t.Errorf("%s: %q is missing in\n%s", args, w, out)
		}
	}
}

// refuse runs a command that must fail and say want.
func (h *hosts) refuse(args, want string) {
	h.t.Helper()
	if out, err := h.run(strings.Fields(args)...); err == nil || !strings.Contains(out, want) {
		h.t.Errorf("%s: %v, %q is missing in\n%s", args, err, want, out)
	}
}

// TestSwarmOfHosts takes two hosts through a run.
func TestSwarmOfHosts(t *testing.T) {
	h := newHosts(t)
	h.refuse("", "usage:")
	h.refuse("fly", "usage:")
	h.refuse("join", "run swarm.sh bootstrap first")
	h.expect("deploy", "ann@one: deployed", "two: deployed")
	h.expect("bootstrap", "ann@one: bootstrap started", "/ip4/192.0.2.1/tcp/4001/p2p/ID")
	h.expect("status", "two                      not running")
	h.expect("join ann@one", "ann@one: join started")
	h.expect("join", "ann@one: join runs already", "two: join started")
	h.expect("status", "running    slot 3 of 9  members 2  root aaaa")
	h.refuse("wait", "still running: ann@one two")
	h.refuse("collect nowhere", "nowhere: failed")
	h.refuse("collect", "no host has a report")
	h.expect("stop two")
	h.expect("collect", "ann@one                  has no report",
		"two                      ended false slot 3  loss 2.5  root aaaa", "state roots are equal")
	h.expect("kill ann@one")
	h.expect("stop")
	h.expect("wait")
	arguments, err := os.ReadFile(h.path("two", "its folder", "arguments"))
	if want := "join --run a run --bootstrap /ip4/192.0.2.1/tcp/4001/p2p/ID --preset wan --rounds 100"; err != nil ||
		!strings.HasPrefix(string(arguments), want) ||
		!strings.Contains(string(arguments), "--start-peers 2 ") ||
		!strings.Contains(string(arguments), "--data data") {
		t.Errorf("joined with %s, %v", arguments, err)
	}
}

// TestDifferentRootsFail has the peers end with different models.
func TestDifferentRootsFail(t *testing.T) {
	h := newHosts(t)
	write(t, h.path("two", "its folder", "root"), "bbbb")
	for _, command := range []string{"deploy", "bootstrap", "join", "status", "stop"} {
		h.expect(command)
	}
	h.refuse("collect", "state roots DIFFER")
}

// TestReadmeOnNamespaces types what README.md says of a swarm without hosts, with the real program.
func TestReadmeOnNamespaces(t *testing.T) {
	if !testutil.Nightly() || os.Getuid() != 0 {
		t.Skip("needs root, and minutes")
	}
	text, err := os.ReadFile(multihost + "README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "\n    ./namespaces.sh up 4\n")
	block, _, ok := strings.Cut(block, "    ./namespaces.sh down\n")
	if !ok {
		t.Fatal("README.md does not make namespaces and end them")
	}
	t.Cleanup(func() {
		if out, err := exec.Command(multihost+"namespaces.sh", "down").CombinedOutput(); err != nil {
			t.Errorf("down: %v\n%s", err, out)
		}
		left, err := exec.Command("ip", "netns", "list").Output()
		if err != nil || strings.Contains(string(left), "p2p-n") {
			t.Errorf("namespaces are left: %s, %v", left, err)
		}
	})
	typed := exec.Command("bash", "-exc", "./namespaces.sh up 4\n"+block)
	typed.Dir = multihost
	out, err := typed.CombinedOutput()
	t.Logf("%s", out)
	if n := strings.Count(string(out), "ended true"); err != nil || n != 4 ||
		!strings.Contains(string(out), "state roots are equal") {
		t.Errorf("%v, and %d of 4 peers ended", err, n)
	}
}

func script(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o700))
}

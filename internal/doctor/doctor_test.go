package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

const gib = 1 << 30

// machine is a Machine as a test wants it.
type machine struct {
	free, files, receive, send uint64
	small                      time.Duration
	rate                       float64
	err                        error
}

func good() machine {
	return machine{free: 100 * gib, files: 1 << 16, receive: 8 << 20, send: 8 << 20, small: time.Millisecond, rate: 1e9}
}

func (m machine) Disk(string) (uint64, error)                 { return m.free, m.err }
func (m machine) Sync(string) (time.Duration, float64, error) { return m.small, m.rate, m.err }
func (m machine) Files() (uint64, error)                      { return m.files, m.err }
func (m machine) Buffers() (receive, send uint64, err error)  { return m.receive, m.send, m.err }

// find is the finding of a check.
func find(t *testing.T, all []Finding, check string) Finding {
	t.Helper()
	for _, f := range all {
		if f.Check == check {
			if f.Level != OK && f.Do == "" || f.Level == OK && f.Do != "" {
				t.Errorf("%+v: something to do goes with what is wrong", f)
			}
			return f
		}
	}
	t.Fatalf("no finding %s in %+v", check, all)
	return Finding{}
}

func TestLocal(t *testing.T) {
	need := Need{State: 8 * gib, Outcome: gib}
	for _, c := range []struct {
		check string
		spoil func(*machine)
		need  Need
		level Level
		part  string
	}{
		{
			"disk", func(*machine) {}, need, OK,
			"100 GiB free in /data; 3 checkpoints of this model, the rounds between and all records take 36 GiB",
		},
		{"disk", func(m *machine) { m.free = 40 * gib }, need, Warn, ""},
		{"disk", func(m *machine) { m.free = 30 * gib }, need, Fail, "free 42 GiB more"},
		{"disk", func(*machine) {}, Need{State: gib, Records: 1 << 20, Members: 500}, Fail, "all records take 164 GiB"},
		{"disk", func(m *machine) { m.free = gib }, Need{}, Warn, "by a guess"},
		{"disk", func(m *machine) { m.err = os.ErrPermission }, need, Fail, "permission"},
		{"disk", func(m *machine) { m.err = errors.ErrUnsupported }, need, OK, "cannot be read"},
		{
			"fsync", func(*machine) {}, need, OK,
			"on the disk after 1ms; large writes run at 954 MiB/s, so a round's outcome takes 1.07",
		},
		{"fsync", func(m *machine) { m.small = time.Second }, need, Warn, ""},
		{"fsync", func(m *machine) { m.rate = 1e6 }, need, Warn, ""},
		{"files", func(*machine) {}, need, OK, "65536"},
		{"files", func(m *machine) { m.files = 1024 }, need, Warn, ""},
		{"files", func(m *machine) { m.files = 64 }, need, Fail, ""},
		{"udp", func(*machine) {}, need, OK, ""},
		{"udp", func(m *machine) { m.send = 212992 }, need, Warn, "208 KiB out"},
	} {
		m := good()
		c.spoil(&m)
		f := find(t, Local(m, "/data", c.need), c.check)
		if f.Level != c.level || !strings.Contains(f.What+f.Do, c.part) {
			t.Errorf("%+v, want %s with %q", f, c.level, c.part)
		}
	}
}

// This machine's own values are had, and what is written to measure is gone.
func TestHost(t *testing.T) {
	dir := t.TempDir()
	for _, f := range Local(Host{}, dir+"/not/yet/there", Need{}) {
		if f.Level == Fail {
			t.Errorf("%+v", f)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// sample is a View of which nothing is wrong: three peers, NAT that keeps ports.
func sample() *View {
	v := &View{
		Run: "books", Bootstrap: Bootstrap{Given: []string{"/x"}, Answered: true},
		Own:    []netip.Addr{netip.MustParseAddr("10.0.0.2")},
		Mapped: []string{"/ip4/198.51.100.7/udp/4001/quic-v1", "/ip4/198.51.100.7/udp/4001/quic-v1"},
		Slot:   Slot{Bytes: 100e6, Codec: "int8", Members: 4, Steps: 500, Step: 2 * time.Second},
	}
	for i := range 3 {
		v.Peers = append(v.Peers, Peer{
			ID: fmt.Sprintf("12D3KooWpeer%d", i), Member: true,
			Probe: Probe{
				Addr: "/ip4/203.0.113.5/tcp/4001", Observed: "/ip4/198.51.100.7/tcp/50001",
				RTT: 30 * time.Millisecond, Up: 2.5e6 * float64(i+1), Down: 5e6,
			},
		})
	}
	return v
}

func TestView(t *testing.T) {
	if all := sample().Check(); Worst(all) != OK {
		t.Errorf("%+v", all)
	}
	for _, c := range []struct {
		spoil func(*View)
		want  string // a check, its level and a part of what it says, a line each
	}{
		{func(v *View) { v.Bootstrap = Bootstrap{Given: []string{"/x"}, Err: "refused"} }, "bootstrap|warn|refused"},
		{
			func(v *View) { v.Bootstrap, v.Peers = Bootstrap{Given: []string{"/x"}}, nil },
			"bootstrap|fail|no bootstrap address answers",
		},
		{func(v *View) {
			v.Bootstrap, v.Peers, v.Ticket = Bootstrap{Given: []string{"/x"}, Err: "/x: no answer"}, nil, true
		}, "bootstrap|fail|none of the ticket's addresses answers: /x: no answer"},
		{
			func(v *View) { v.Bootstrap, v.Peers, v.Own = Bootstrap{Given: []string{"/x"}}, nil, nil },
			"bootstrap|fail|no bootstrap address",
		},
		{func(v *View) { v.Peers, v.Ticket = nil, true }, "members|warn|no peer of the ticket's run books"},
		{func(v *View) { v.Mapped, v.Peers, v.Own = nil, nil, v.Own[:0] }, "address|warn|no address but loopback"},
		{func(v *View) { v.Bootstrap = Bootstrap{} }, "bootstrap|ok|not needed"},
		{func(v *View) { v.Bootstrap, v.Peers = Bootstrap{}, nil }, "bootstrap|warn|no peer was found"},
		{func(v *View) { v.Peers = nil }, "members|warn|no other peer of run books"},
		{func(v *View) {
			for i := range v.Peers {
				v.Peers[i].Member = false
			}
		}, "members|warn|no other peer of run books"},
		{func(v *View) { v.Peers[0].Member = false }, "slot|ok|to ooWpeer1, carries 40 Mbit/s"},
		{
			func(*View) {},
			"address|ok|at 198.51.100.7, which it does not have itself\n" +
				"nat|ok|keeps a socket's port\n" +
				"peer ooWpeer0|ok|over TCP, round trip 30ms, 20 Mbit/s up, 40 Mbit/s down\n" +
				// 2 x 3/4 of 100 MB at 2.5 MB/s, beside 1000 s.
				"slot|ok|among 4 peers takes 1m0s a round; the slowest connection, to ooWpeer0, carries 20 Mbit/s; " +
				"the inner phase takes 16m40s",
		},
		{
			func(v *View) { v.Own = append(v.Own, netip.MustParseAddr("198.51.100.7")) },
			"address|ok|an address of its own: 198.51.100.7\n" +
				"nat|ok|no NAT was seen",
		},
		{func(v *View) { v.Mapped, v.Peers = nil, nil }, "address|warn|no peer has reported at which"},
		{
			func(v *View) { v.Mapped, v.Peers, v.Bootstrap.Answered = nil, nil, false },
			"address|warn|no peer has reported yet",
		},
		{func(v *View) { v.Mapped[0] = "/ip4/198.51.100.7/udp/4999/quic-v1" }, "nat|warn|holes cannot be punched"},
		{func(v *View) { v.Mapped = v.Mapped[1:] }, "nat|ok|not known"},
		{
			func(v *View) { v.Reach = &Reach{Failed: []string{"/ip4/198.51.100.7/tcp/1"}} },
			"reach|warn|could not reach",
		},
		{func(v *View) { v.Reach = &Reach{Relays: []slot.PeerID{"x"}, Failed: []string{"/z"}} }, "reach|warn|1 relays"},
		{func(v *View) { v.Reach = &Reach{Relays: []slot.PeerID{"x"}} }, "reach|ok|1 relays"},
		{func(v *View) { v.Reach = &Reach{Public: true, Tried: []string{"/y"}} }, "reach|ok|/y"},
		{
			func(v *View) { v.Reach = &Reach{Relays: []slot.PeerID{"x"}, Tried: []string{"/y"}} },
			"reach|ok|/y, and otherwise through 1 relays",
		},
		{func(v *View) { v.Reach = &Reach{Tried: []string{"/y"}} }, "reach|warn|except those with IPv4 only"},
		{func(v *View) { v.Peers[0].RTT = time.Second }, "peer ooWpeer0|warn|"},
		{
			func(v *View) { v.Peers[0].Addr = "/ip4/203.0.113.5/tcp/1/p2p/X/p2p-circuit" },
			"peer ooWpeer0|warn|a relay",
		},
		{func(v *View) { v.Peers[0].Error = "no\nway" }, "peer ooWpeer0|warn|no answer: no way"},
		{func(v *View) {
			for i := range v.Peers {
				v.Peers[i].Error = "x"
			}
		}, "members|fail|can be reached"},
		{
			func(v *View) { v.Peers[0].Offset = time.Minute },
			"clock|ok|the clocks of these peers differ from the rest: ooWpeer0 (1m0s)",
		},
		{
			func(v *View) { v.Peers[0].Offset = -90 * time.Minute },
			"clock|warn|the clocks of these peers differ from the rest: ooWpeer0 (-1h30m0s)",
		},
		{
			func(v *View) { v.Peers[0].Offset, v.Peers[1].Offset = time.Minute, time.Minute },
			"clock|warn|1m0s behind those of the others",
		},
		{
			func(v *View) { v.Peers[0].Offset, v.Peers[1].Offset = -time.Minute, -time.Minute },
			"clock|warn|ahead of those of the others",
		},
		{func(v *View) { v.Load = 3.5 }, "peer ooWpeer0|ok|40 Mbit/s down, measured under a load of 3.5 on "},
		{func(v *View) { v.Slot.Steps = 100 }, "slot|warn|"},
		{func(v *View) { v.Slot.Steps, v.Slot.Beside = 100, true }, "slot|ok|runs beside it"},
		{func(v *View) { v.Slot.Steps, v.Slot.Beside = 20, true }, "slot|warn|"},
		{func(v *View) { v.Slot.Step = 0 }, "slot|ok|inner phases should take 9m"},
	} {
		v := sample()
		c.spoil(v)
		all := v.Check()
		for line := range strings.SplitSeq(c.want, "\n") {
			want := strings.Split(line, "|")
			if f := find(t, all, want[0]); string(f.Level) != want[1] || !strings.Contains(f.What, want[2]) {
				t.Errorf("%+v, want %q", f, want)
			}
		}
	}
}

// What is not known is no finding, and a table names levels and what to do.
func TestPrint(t *testing.T) {
	v := sample()
	v.Slot.Bytes = 0
	for i := range v.Peers {
		v.Peers[i].Error = "x"
	}
	all := v.Check()
	for _, f := range all {
		if f.Check == "slot" || f.Check == "clock" {
			t.Errorf("%+v", f)
		}
	}
	var b strings.Builder
	Print(&b, all)
	if Worst(all) != Fail || !strings.Contains(b.String(), "fail") ||
		!strings.Contains(b.String(), "-> check that this machine's firewall") {
		t.Errorf("%s", b.String())
	}
}

// What to do is said for the fault at hand: a full disk is writable, and a machine without a
// network needs no other address.
func TestWhatToDo(t *testing.T) {
	m := good()
	m.err = &os.PathError{Op: "write", Path: "/data/x", Err: syscall.ENOSPC}
	if f := find(t, Local(m, "/data", Need{}), "fsync"); f.Level != Fail ||
		!strings.HasPrefix(f.Do, "free some space") {
		t.Errorf("%+v", f)
	}
	v := sample()
	v.Bootstrap, v.Peers, v.Own = Bootstrap{Given: []string{"/x"}}, nil,
		[]netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("fe80::1")}
	if f := find(t, v.Check(), "bootstrap"); f.Do != noNetwork {
		t.Errorf("%+v", f)
	}
}

// TestTheDocumentIsStable pins the keys of doctor --json, which docs/reference/doctor.md lists:
// scripts read them.
func TestTheDocumentIsStable(t *testing.T) {
	v := sample()
	v.Node, v.Addrs, v.Bootstrap.Err, v.Load = "n", []string{"/a"}, "x", 1
	v.Reach = &Reach{Public: true, Tried: []string{"/a"}, Failed: []string{"/b"}, Relays: []slot.PeerID{"r"}}
	v.Peers[0].Error, v.Peers[0].Offset = "x", time.Second
	v.Peers = v.Peers[:2]
	v.Check()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile("../../docs/reference/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"":          {"addrs", "bootstrap", "load", "mapped", "node", "peers", "reach", "run", "slot"},
		"bootstrap": {"answered", "error", "given"},
		"reach":     {"failed", "public", "relays", "tried"},
		"peers":     {"addr", "down", "error", "member", "observed", "offset_ns", "peer", "rtt_ns", "up"},
		"slot": {
			"beside", "bytes", "codec", "inner_ns", "inner_steps", "members", "slow_bps", "slowest",
			"step_ns", "takes_ns",
		},
	} {
		part := doc
		if list, ok := doc[name].([]any); ok {
			part = list[0].(map[string]any)
		} else if name != "" {
			part = doc[name].(map[string]any)
		}
		if got := slices.Sorted(maps.Keys(part)); !slices.Equal(got, want) {
			t.Errorf("%q has %q, want %q", name, got, want)
		}
		for _, key := range want {
			if !strings.Contains(string(docs), "`"+key+"`") {
				t.Errorf("docs/reference/doctor.md says nothing of %s in %q", key, name)
			}
		}
	}
}

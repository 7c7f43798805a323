package lab

import (
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// fake is a device without a kernel: the test sends through it and sees what arrives, and when.
type fake struct {
	sends    chan []byte
	arrivals chan time.Time
	closed   chan struct{}
}

func (d *fake) Read(b []byte) (int, error) {
	select {
	case data := <-d.sends:
		return copy(b, data), nil
	case <-d.closed:
		return 0, net.ErrClosed
	}
}

func (d *fake) Write(b []byte) (int, error) {
	d.arrivals <- time.Now()
	return len(b), nil
}

func (d *fake) Close() error {
	close(d.closed)
	return nil
}

func fakeLab(nodes int, link Link) (l *Lab, devices []*fake) {
	cfg := Config{Nodes: nodes, Link: link}.withDefaults()
	made := make([]io.ReadWriteCloser, nodes)
	for i := range nodes {
		devices = append(devices, &fake{make(chan []byte), make(chan time.Time, 10), make(chan struct{})})
		made[i] = devices[i]
	}
	return start(Hosts{cfg: cfg}, made), devices
}

// TestPumpKeepsTime sends through the goroutines around the fabric: what arrives does so when the
// links say.
func TestPumpKeepsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, devices := fakeLab(2, Link{Delay: 20 * ms})
		defer l.Close()
		for _, want := range []time.Duration{40 * ms, 220 * ms} {
			began := time.Now()
			devices[0].sends <- ipv4(l.Addr(1))
			if took := (<-devices[1].arrivals).Sub(began); took < want || took > want+grain {
				t.Errorf("took %v, want %v", took, want)
			}
			if err := l.SetLink(1, Link{Delay: 200 * ms}); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestPumpWakesForWhatIsSooner: a packet on a short way does not wait for one on a long way that
// set out before.
func TestPumpWakesForWhatIsSooner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, devices := fakeLab(3, Link{})
		defer l.Close()
		if err := l.SetLink(1, Link{Delay: 10 * time.Second}); err != nil {
			t.Fatal(err)
		}
		devices[0].sends <- ipv4(l.Addr(1))
		time.Sleep(time.Second)
		began := time.Now()
		devices[0].sends <- ipv4(l.Addr(2))
		if took := (<-devices[2].arrivals).Sub(began); took > grain {
			t.Errorf("took %v", took)
		}
		if took := (<-devices[1].arrivals).Sub(began); took < 9*time.Second || took > 9*time.Second+grain {
			t.Errorf("the other took %v more", took)
		}
	})
}

// TestACutIsNotInThePast: what was due before a cut has arrived, though the pump was late: here
// there is none.
func TestACutIsNotInThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Nodes: 2}.withDefaults()
		l := &Lab{Hosts: Hosts{cfg: cfg}, began: time.Now(), alarm: time.NewTimer(never)}
		l.mu.fabric = newFabric(2, Link{Delay: ms})
		l.send(0, ipv4(l.Addr(1)))
		time.Sleep(time.Second)
		if err := l.Cut(1); err != nil {
			t.Fatal(err)
		}
		if due := l.pass(); len(due) != 1 {
			t.Errorf("%d packets arrived, want 1", len(due))
		}
	})
}

// TestNobodyElseIsReached: packets to strangers vanish.
func TestNobodyElseIsReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, devices := fakeLab(2, Link{})
		defer l.Close()
		devices[0].sends <- []byte{1, 2, 3}
		devices[0].sends <- ipv4(l.cfg.addr(7))
		devices[0].sends <- ipv4(l.Addr(1))
		<-devices[1].arrivals
		synctest.Wait()
		if len(devices[1].arrivals) != 0 {
			t.Errorf("%d more arrivals", len(devices[1].arrivals))
		}
	})
}

func TestFaultsAreSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, devices := fakeLab(4, Link{})
		defer l.Close()
		reached := func() (out []int) {
			for i := 1; i < 4; i++ {
				devices[0].sends <- ipv4(l.Addr(i))
			}
			time.Sleep(time.Second)
			for i := 1; i < 4; i++ {
				if len(devices[i].arrivals) > 0 {
					<-devices[i].arrivals
					out = append(out, i)
				}
			}
			return out
		}
		for _, test := range []struct {
			name string
			set  func() error
			want []int
		}{
			{"cut 1", func() error { return l.Cut(1) }, []int{2, 3}},
			{"cut 0-2", func() error { return l.CutPair(2, 0) }, []int{3}},
			{"heal 1", func() error { return l.Heal(1) }, []int{1, 3}},
			{"halves", func() error { return l.Partition(2, 3) }, []int{1}},
			{"a side of one", func() error { return l.Partition(1) }, nil},
			{"heal", func() error { return l.Heal() }, []int{1, 2, 3}},
			{"mute 0", func() error { return l.Mute(0) }, nil},
			{"heal 0", func() error { return l.Heal(0) }, []int{1, 2, 3}},
			{"mute 1, which hears all", func() error { return l.Mute(1) }, []int{1, 2, 3}},
			{"heal after a mute", func() error { return l.Heal() }, []int{1, 2, 3}},
			{"lossy", func() error { return l.SetLink(3, Link{Loss: 1000}) }, []int{1, 2}},
		} {
			if err := test.set(); err != nil {
				t.Errorf("%s: %v", test.name, err)
			}
			if got := reached(); !slices.Equal(got, test.want) {
				t.Errorf("%s: node 0 reaches %v, want %v", test.name, got, test.want)
			}
		}
	})
}

// TestMistakesAreNamed: no fault is set on nodes that are not there.
func TestMistakesAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := fakeLab(2, Link{})
		defer l.Close()
		for want, err := range map[string]error{
			"no node 2: they are numbered from 0 to 1": l.Cut(0, 2),
			"no node -1": l.CutPair(-1, 0),
			"no node 9":  l.Heal(9),
			"no node 3":  l.SetLink(3, Link{}),
			"no node 5":  l.Partition(5),
		} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v does not say %q", err, want)
			}
		}
		if l.mu.fabric.apart(0, 1) {
			t.Error("a refused cut was made")
		}
	})
}

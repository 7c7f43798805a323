package twins

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"go.uber.org/goleak"

	_ "github.com/p2pdiloco/p2pdiloco/internal/onecpu"
	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/tasks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is a process with the parts of this package, as a Network has them.
type node struct {
	*Twins
	host  host.Host
	index int
	group *tasks.Group
	log   *logBuffer
}

// logBuffer keeps a log.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logBuffer) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.b.String(), text)
}

func newKey(t *testing.T) crypto.PrivKey {
	t.Helper()
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// start starts a process with a key on a host of its own.
func start(t *testing.T, s *sim.Net, key crypto.PrivKey) *node {
	t.Helper()
	s.Options = []libp2p.Option{libp2p.Identity(key)}
	i := s.Add()
	return startOn(t, s.Hosts[i], i, key)
}

// startOn starts a process on a host that is there.
func startOn(t *testing.T, h host.Host, i int, key crypto.PrivKey) *node {
	t.Helper()
	n := &node{host: h, index: i, group: tasks.NewGroup(context.Background()), log: &logBuffer{}}
	log := slog.New(slog.NewTextHandler(n.log, &slog.HandlerOptions{Level: slog.LevelInfo}))
	n.Twins = New(Env{
		Env: peers.NewEnv(h, n.group, nil, log), Key: key, Admits: func(peer.ID) bool { return true },
	})
	h.SetStreamHandler(Protocol, func(s network.Stream) {
		n.Answer(slot.PeerID(s.Conn().RemotePeer()), s)
		_ = s.Close()
	})
	n.group.Go(n.Watch)
	t.Cleanup(n.end)
	return n
}

// end ends the process's goroutines. Its host stays.
func (n *node) end() {
	n.group.Stop()
	n.host.RemoveStreamHandler(Protocol)
	for _, c := range n.host.Network().Conns() { // handlers end with their streams
		_ = c.Close()
	}
	n.group.Wait()
}

// isTwin says whether the process knows that there is another one.
func (n *node) isTwin() bool {
	select {
	case <-n.Found():
		return true
	default:
		return false
	}
}

// connect connects the node to others.
func (n *node) connect(t *testing.T, s *sim.Net, others ...*node) {
	t.Helper()
	for _, o := range others {
		s.Connect(n.index, o.index)
	}
}

// open opens a stream to a node on a connection, and reads what the process says.
func (n *node) open(t *testing.T, to *node) (network.Stream, hail) {
	t.Helper()
	s, err := n.host.NewStream(t.Context(), to.host.ID(), Protocol)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.SetDeadline(time.Now().Add(time.Minute))
	h, err := readHail(s)
	if err != nil {
		t.Fatal(err)
	}
	return s, h
}

func setOf(ids ...peer.ID) map[peer.ID]struct{} {
	set := make(map[peer.ID]struct{})
	for _, id := range ids {
		set[id] = struct{}{}
	}
	return set
}

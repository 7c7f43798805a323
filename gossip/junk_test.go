package gossip

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// ofThisRun begins the bodies that belong to the run of these tests.
const ofThisRun = 'r'

// junk makes announcements that nobody wants, of a stranger with a host, in its own name or under
// names made up.
type junk struct {
	t    *testing.T
	host host.Host
	next uint64 // counter
}

// sealed is a gossipsub message as its author signs it, without the last bytes.
func (j *junk) sealed(key crypto.PrivKey, a announcement, without int) *pb.Message {
	j.t.Helper()
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		j.t.Fatal(err)
	}
	topic, data := name, a.append(nil)
	m := &pb.Message{
		From: []byte(id), Data: data[:len(data)-without],
		Seqno: binary.BigEndian.AppendUint64(nil, a.counter), Topic: &topic,
	}
	b, err := proto.Marshal(m)
	if err != nil {
		j.t.Fatal(err)
	}
	if m.Signature, err = key.Sign(append([]byte("libp2p-pubsub:"), b...)); err != nil {
		j.t.Fatal(err)
	}
	return m
}

func (j *junk) own() crypto.PrivKey { return j.host.Peerstore().PrivKey(j.host.ID()) }

// well is a well-made announcement of a name made up.
func (j *junk) well() *pb.Message {
	key, _, err := crypto.GenerateEd25519Key(nil)
	if err != nil {
		j.t.Fatal(err)
	}
	return j.sealed(key, announcement{kind: 1, boot: 1, counter: 1, body: []byte{ofThisRun}}, 0)
}

// messages makes n of all kinds in turn. heard is what a member said before.
func (j *junk) messages(n int, heard *pb.Message) (all []*pb.Message) {
	for i := range n {
		j.next++
		a := announcement{kind: 1, boot: 1, counter: j.next, body: []byte{ofThisRun}}
		var m *pb.Message
		switch i % 6 {
		case 0: // malformed
			m = j.sealed(j.own(), a, 1)
		case 1: // of another run
			a.body = []byte("another run's")
			m = j.sealed(j.own(), a, 0)
		case 2: // said before
			m = proto.Clone(heard).(*pb.Message)
		case 3: // a member's, changed
			m = proto.Clone(heard).(*pb.Message)
			m.Data = a.append(nil)
		case 4:
			if a.body = nil; i%96 == 4 { // too large
				a.body = make([]byte, MaxBody+1)
			}
			m = j.sealed(j.own(), a, 0)
		case 5: // well made, under a new name each
			m = j.well()
		}
		all = append(all, m)
	}
	return all
}

// send has a peer get messages over one stream, as fast as it takes them.
func (j *junk) send(to peer.ID, all []*pb.Message) {
	s, err := j.host.NewStream(j.t.Context(), to, protocolOf(name))
	if err != nil {
		j.t.Error(err)
		return
	}
	defer s.Reset() //nolint:errcheck // the test is over
	for len(all) > 0 {
		n := min(len(all), 10)
		b, err := proto.Marshal(&pb.RPC{Publish: all[:n]})
		if err != nil {
			j.t.Error(err)
			return
		}
		all = all[n:]
		if _, err := s.Write(append(binary.AppendUvarint(nil, uint64(len(b))), b...)); err != nil {
			return // cut off
		}
	}
	time.Sleep(10 * time.Second)
}

// Four thousand junk announcements, of one stranger or of sixteen: they are dropped, and soon not
// even looked at; what members say arrives.
func TestJunkAnnouncements(t *testing.T) {
	for _, strangers := range []int{1, 16} {
		t.Run(fmt.Sprint(strangers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { flood(t, strangers, 4000) })
		})
	}
}

func flood(t *testing.T, strangers, messages int) {
	s := sim.NewMemory(t, 3, time.Millisecond)
	var checked atomic.Int64
	topics, ears := line(t, s, func(i int, c *Config) {
		c.Check = func(_ slot.PeerID, _ uint8, body []byte) bool {
			if i == 1 {
				checked.Add(1)
			}
			return len(body) > 0 && body[0] == ofThisRun
		}
	})
	var members []slot.PeerID
	for _, h := range s.Hosts {
		members = append(members, slot.PeerID(h.ID()))
	}
	for _, topic := range topics {
		topic.Keep(members)
	}
	said := announcement{kind: 1, boot: 1, counter: 0, body: []byte("r early")}
	heard := (&junk{t: t, host: s.Hosts[0]}).sealed(s.Hosts[0].Peerstore().PrivKey(s.Hosts[0].ID()), said, 0)
	before := inUse()
	var all sync.WaitGroup
	for range strangers {
		s.Connect(s.Add(), 1)
	}
	to := s.Hosts[1].ID()
	for _, h := range s.Hosts[3:] {
		j := &junk{t: t, host: h}
		all.Go(func() { j.send(to, j.messages(messages/strangers, heard)) })
	}
	const honest = 20
	for k := range honest {
		if err := topics[0].Publish(t.Context(), 1, fmt.Appendf(nil, "r%d", k)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(3 * time.Second)
	for i := 1; i <= 2; i++ {
		if got := honestOf(ears[i].take(), members[0]); got != honest {
			t.Errorf("host %d heard %d of the %d announcements of a member", i, got, honest)
		}
	}
	if n, most := checked.Load(), int64(strangers*(2*offencesBurst)+2*honest); n > most {
		t.Errorf("%d announcements were looked at, want up to %d", n, most)
	}
	for _, p := range s.Hosts[3:] {
		if !topics[1].bad.muted(p.ID(), time.Now()) {
			t.Errorf("the stranger %s is still heard", p.ID())
		}
	}
	for i := range 3 {
		for j := range 3 {
			if topics[i].bad.muted(s.Hosts[j].ID(), time.Now()) {
				t.Errorf("the member %d is not heard by %d", j, i)
			}
		}
	}
	if grown := int64(inUse()) - int64(before); grown > 32<<20 {
		t.Errorf("%d MiB are held", grown>>20)
	}
	all.Wait()
}

// honestOf counts the numbered announcements of an author.
func honestOf(heard []string, author slot.PeerID) (n int) {
	for _, text := range heard {
		var k int
		if c, _ := fmt.Sscanf(text, author.Short()+" 1 r%d", &k); c == 1 {
			n++
		}
	}
	return n
}

// inUse is the heap, in bytes.
func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

package statesync

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

func TestServerSurvivesGarbage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, want := keeping(t, 1)
		blobs, _ := putOutcome(t, s, 100_000)
		v := server(t, s, free)
		n := &peers{serve: serves{"a": honest(v)}}
		size := uint64(testShape.Size())
		for _, b := range [][]byte{
			nil, []byte("x"), make([]byte, requestSize), bytes.Repeat([]byte{0xff}, 1000),
			request{Type: 9}.append(nil), request{Type: askList, Length: 1}.append(nil),
			request{askChunk, want.Root, 0, maxChunk + checkpoint.GroupBytes}.append(nil),
			request{askChunk, want.Root, 1, checkpoint.GroupBytes}.append(nil),
			request{askChunk, want.Root, 0, 5}.append(nil),
			request{askChunk, want.Root, size, checkpoint.GroupBytes}.append(nil),
			request{askChunk, want.Root, math.MaxUint64, checkpoint.GroupBytes}.append(nil),
			request{askChunk, want.Root, math.MaxInt64 - 5, checkpoint.GroupBytes}.append(nil),
			request{askFrames, blobs[0].Root, 2, 1}.append(nil),
			request{askFrames, blobs[0].Root, math.MaxUint64, 1}.append(nil),
			request{askFrames, blobs[0].Root, 1, math.MaxUint64}.append(nil),
			request{askFrames, blobs[0].Root, 0, 0}.append(nil),
		} {
			st, err := n.Open(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			n.wg.Go(func() { _, _ = st.Write(b) }) // it may be refused before it is read whole
			// The server ends the stream; at the latest when no whole request has come in time.
			if got, err := st.Read(make([]byte, 1)); err == nil {
				t.Fatalf("request %x was answered with %d bytes", b, got)
			}
			_ = st.Close()
		}
		st, err := n.Open(t.Context(), "a") // it is still well, and says what it does not hold
		if err != nil {
			t.Fatal(err)
		}
		z := newZip()
		for _, q := range []request{
			{askChunk, slot.Root{1}, 0, checkpoint.GroupBytes},
			{askFrames, slot.Root{1}, 0, 1},
		} {
			if _, err := st.Write(q.append(nil)); err != nil {
				t.Fatal(err)
			}
			if _, _, err := z.readBlock(st, nil, 0, 10); !errors.Is(err, errNotHeld) {
				t.Fatalf("error %v", err)
			}
		}
		_ = st.Close()
		n.wg.Wait()
	})
}

func TestServerLimits(t *testing.T) {
	t.Run("streams", func(t *testing.T) { testServerLimits(t, ServerConfig{Streams: 2, PerPeer: 9}, 2, 2) })
	t.Run("per peer", func(t *testing.T) { testServerLimits(t, ServerConfig{Streams: 3, PerPeer: 2}, 2, 3) })
}

// testServerLimits opens more streams than are served, and more than are told that the server is
// busy.
func testServerLimits(t *testing.T, cfg ServerConfig, served, refused int) {
	synctest.Test(t, func(t *testing.T) {
		v := server(t, newStore(t, testShape), cfg)
		n := &peers{serve: serves{"a": honest(v)}}
		z := newZip()
		var open []wire.Stream
		for range served + refused + 1 {
			st, err := n.Open(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, st)
			synctest.Wait()
		}
		if _, err := open[served+refused].Write([]byte("x")); err == nil {
			t.Fatal("a stream is open beyond those served and those told that the server is busy")
		}
		for _, st := range open[served : served+refused] {
			if _, err := st.Write(request{Type: askList}.append(nil)); err != nil {
				t.Fatal(err)
			}
			if _, _, err := z.readBlock(st, nil, 0, 10); !errors.Is(err, errBusy) {
				t.Fatalf("error %v, want %v", err, errBusy)
			}
		}
		if _, err := open[0].Write(request{Type: askList}.append(nil)); err != nil {
			t.Fatal(err)
		}
		if b, _, err := z.readBlock(open[0], nil, 0, 10); err != nil || len(b) != 4 {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
		time.Sleep(2 * time.Minute) // idle streams end
		synctest.Wait()
		for _, st := range open {
			if _, err := st.Read(make([]byte, 1)); err == nil {
				t.Fatal("still open")
			}
		}
		n.wg.Wait()
	})
}

func TestHostileServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, want := keeping(t, 9)
		blob := Blob{slot.Root{1}, 100}
		z := newZip()
		bomb := head{statusOK, zstdWhole, 200, 0}.append(nil)
		zeros := z.enc.EncodeAll(make([]byte, 1<<20), nil)
		bomb[11] = byte(len(zeros))
		answers := [][]byte{
			make([]byte, 12), bytes.Repeat([]byte{0xff}, 64),
			head{statusOK, plain, math.MaxUint32, math.MaxUint32}.append(nil),
			append(bomb, zeros...),
			z.appendBlock(nil, bytes.Repeat([]byte{0xff}, 60)),
			head{statusNotHeld, plain, 1, 1}.append(nil),
		}
		for i, a := range answers {
			n := &peers{serve: serves{"x": func(st wire.Stream) {
				var q [requestSize]byte
				_, _ = st.Read(q[:])
				_, _ = st.Write(a)
				_ = st.Close()
			}}}
			c := NewClient(n, Config{})
			if _, report, err := c.FetchState(t.Context(), newStore(t, testShape), []Target{want}, n.ids,
				nil); err == nil || len(report.Bad) != 1 || !report.Bad[0].Lied {
				t.Fatalf("answer %d: %v, %+v", i, err, report)
			}
			if _, report, err := c.FetchOutcome(t.Context(), []Blob{blob}, testFrame, n.ids()); err == nil ||
				len(report.Bad) != 1 || !report.Bad[0].Lied {
				t.Fatalf("answer %d: %v, %+v", i, err, report)
			}
			n.wg.Wait()
		}
	})
}

// samples are blocks of the kinds that travel.
func samples() map[string][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	fill := func(f func(i int) float32) []byte {
		v := make([]float32, maxChunk/4)
		for i := range v {
			v[i] = f(i)
		}
		return kernel.Bytes(v)
	}
	noise := make([]byte, maxChunk)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	return map[string][]byte{
		"weights":  fill(func(int) float32 { return float32(r.NormFloat64() * .02) }),
		"momentum": fill(func(int) float32 { return float32(r.NormFloat64() * 1e-4 * r.Float64()) }),
		"zeros":    fill(func(int) float32 { return 0 }),
		"noise":    noise,
	}
}

func TestBlocks(t *testing.T) {
	z := newZip()
	defer z.close()
	want := map[string]encoding{"weights": zstdPlanes, "momentum": zstdPlanes, "zeros": zstdWhole, "noise": plain}
	for name, data := range samples() {
		for _, n := range []int{0, 1, 3, 511, 514, 65535, len(data) - 1, len(data)} {
			b := z.appendBlock([]byte("before"), data[:n])
			if len(b) > len("before")+blockHead+n {
				t.Fatalf("%s: block of %d bytes for %d", name, len(b), n)
			}
			b = b[len("before"):]
			h, err := parseHead(b[:blockHead])
			if err != nil {
				t.Fatal(err)
			}
			if n == len(data) && h.Encoding != want[name] {
				t.Fatalf("%s travel as %d, want %d", name, h.Encoding, want[name])
			}
			got, sent, err := z.readBlock(bytes.NewReader(b), nil, n, n)
			if err != nil || sent != len(b) || !bytes.Equal(got, data[:n]) {
				t.Fatalf("%s of %d bytes: %v", name, n, err)
			}
		}
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add(request{Type: askList}.append(nil))
	f.Add(request{askChunk, slot.Root{1}, 5, 6}.append(nil))
	f.Add(request{askFrames, slot.Root{1}, 5, 6}.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if q, err := parseRequest(b); err == nil && !bytes.Equal(q.append(nil), b) {
			t.Fatal("not canonical")
		}
	})
}

func FuzzReadBlock(f *testing.F) {
	z := newZip()
	for _, data := range samples() {
		f.Add(z.appendBlock(nil, data[:2000]))
	}
	f.Add(head{Status: statusBusy}.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, sent, err := z.readBlock(bytes.NewReader(b), nil, 10, 5000)
		if err == nil && (len(got) < 10 || len(got) > 5000 || sent > len(b)) {
			t.Fatalf("block of %d bytes from %d", len(got), sent)
		}
	})
}

func FuzzParseList(f *testing.F) {
	f.Add(appendList(nil, []checkpoint.Checkpoint{
		{Height: 1, Slot: 2, Root: slot.Root{3}, Size: 4},
		{Size: math.MaxInt64},
	}))
	f.Add(appendList(nil, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if l, err := parseList(b); err == nil && !bytes.Equal(appendList(nil, l), b) {
			t.Fatal("not canonical")
		}
	})
}

func FuzzParseHashes(f *testing.F) {
	data := []byte("0123456789")
	hashes := slot.Cut(data, 4).Hashes
	root := slot.FrameRoot(hashes, 4, 10)
	f.Add(appendHashes(nil, 10, 4, hashes))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := parseHashes(b, 10, 4, root); err == nil && !slices.Equal(got, hashes) {
			t.Fatal("other hashes")
		}
	})
}

func BenchmarkCompress(b *testing.B) {
	z := newZip()
	for name, data := range samples() {
		block := z.appendBlock(nil, data)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				block = z.appendBlock(block[:0], data)
			}
			b.ReportMetric(float64(len(block))/float64(len(data)), "sent/byte")
		})
		b.Run(name+"/decode", func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			dst := make([]byte, len(data))
			for b.Loop() {
				if _, _, err := z.readBlock(bytes.NewReader(block), dst, len(data), len(data)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

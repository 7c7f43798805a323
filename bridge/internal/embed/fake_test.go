package embed

import (
	"context"
	"io"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/peer"
	"github.com/p2pdiloco/p2pdiloco/bridge/settings"
	_ "github.com/p2pdiloco/p2pdiloco/internal/onecpu"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const config = `{"run": "test", "layout": [{"name": "w", "shape": [2, 2]}], "preset": "lan"}`

// fake is a peer whose steps the test takes.
type fake struct {
	options  peer.Options
	joined   chan struct{}
	member   chan struct{} // Anchor waits for it
	farewell chan struct{} // Leave waits for it
	closed   chan struct{}
	once     sync.Once
	at       uint64
	err      error // of what begins next
	refused  error // why it never joins
	steps    int
	panics   bool
	current  *fakeRound
}

func (f *fake) Anchor(ctx context.Context, dst []float32) (uint64, error) {
	if f.panics {
		panic("broken")
	}
	if len(dst) != 4 {
		return 0, p2pdiloco.ErrLength
	}
	select {
	case <-f.member:
	default:
		select {
		case <-f.member:
		case <-f.closed:
			return 0, p2pdiloco.ErrClosed
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	dst[0] = 10
	return f.at, f.err
}

func (f *fake) begin(params []float32, _ uint64) (round, error) {
	if f.err != nil {
		return nil, f.err
	}
	f.current = &fakeRound{f: f, done: make(chan struct{})}
	return f.current, nil
}

func (f *fake) Progress(stepsDone int) { f.steps = stepsDone }

func (f *fake) Joined() <-chan struct{} { return f.joined }

func (f *fake) Status() (p2pdiloco.Status, bool) {
	select {
	case <-f.joined:
		return p2pdiloco.Status{Run: "test", Slot: 7}, f.refused == nil
	default:
		return p2pdiloco.Status{}, false
	}
}

func (f *fake) node(ctx context.Context) (trainee, error) {
	select {
	case <-f.joined:
	default:
		select {
		case <-f.joined:
		case <-f.closed:
			return nil, p2pdiloco.ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if f.refused != nil {
		return nil, f.refused
	}
	return f, nil
}

func (f *fake) Leave(ctx context.Context) (err error) {
	if _, ok := f.Status(); !ok {
		return f.Close()
	}
	select {
	case <-f.farewell:
	case <-ctx.Done():
		err = ctx.Err()
	}
	_ = f.Close()
	return err
}

func (f *fake) Close() error {
	f.once.Do(func() { close(f.closed) })
	return nil
}

// fakeRound is done when the test says so.
type fakeRound struct {
	f    *fake
	done chan struct{}
	err  error
}

func (r *fakeRound) Done() <-chan struct{} { return r.done }

func (r *fakeRound) Err() error {
	select {
	case <-r.done:
		return r.err
	default:
		return nil
	}
}

func (r *fakeRound) Finish(ctx context.Context, dst []float32) (uint64, error) {
	if len(dst) != 4 {
		return 0, p2pdiloco.ErrLength
	}
	select {
	case <-r.done:
	default:
		select {
		case <-r.done:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	r.f.at++
	dst[0]++
	return r.f.at, r.err
}

// with makes a library whose one node is f.
func with(t *testing.T, f *fake, params []float32) (*Library, int64) {
	t.Helper()
	f.joined, f.member, f.farewell, f.closed = make(chan struct{}), make(chan struct{}), make(chan struct{}),
		make(chan struct{})
	l := newLibrary()
	l.open = func(_ *settings.Settings, o peer.Options) (host, error) {
		f.options = o
		o.OnEvent(p2pdiloco.Event{Name: "peer.started", Peer: "me"})
		return f, nil
	}
	h, err := l.Join(config, params)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(h) })
	return l, h
}

func newLibrary() *Library { return New(func() []string { return nil }, io.Discard) }

// joined is with, for a peer that is a member already.
func joined(t *testing.T, f *fake) (*Library, int64) {
	t.Helper()
	l, h := with(t, f, nil)
	close(f.joined)
	close(f.member)
	want(t, OK, anchorErr(l, h, -1))
	return l, h
}

func anchorErr(l *Library, h int64, timeout int32) error {
	_, err := l.Anchor(h, make([]float32, 4), timeout)
	return err
}

func finishErr(l *Library, h int64, timeout int32) error {
	_, err := l.Finish(h, make([]float32, 4), timeout)
	return err
}

func want(t *testing.T, code Code, err error) {
	t.Helper()
	if got := CodeOf(err); got != code {
		t.Errorf("code %d, not %d: %v", got, code, err)
	}
}

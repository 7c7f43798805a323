package embed

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/p2pdiloco/p2pdiloco"
)

func TestAnchorWaitsForTheRunAndForMembership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{at: 3}
		l, h := with(t, f, nil)
		began := time.Now()
		want(t, Again, anchorErr(l, h, 0))
		want(t, Again, anchorErr(l, h, 1500))
		close(f.joined)
		want(t, Again, anchorErr(l, h, 1500))
		if waited := time.Since(began); waited != 3*time.Second {
			t.Errorf("it waited %v", waited)
		}
		close(f.member)
		params := make([]float32, 4)
		slot, err := l.Anchor(h, params, 0)
		if want(t, OK, err); slot != 3 || params[0] != 10 {
			t.Errorf("slot %d, params %v", slot, params)
		}
	})
}

func TestOneCallAtATimeOnANodesVectors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		l, h := with(t, f, nil)
		close(f.joined)
		waiting := make(chan error)
		go func() { waiting <- anchorErr(l, h, -1) }()
		synctest.Wait()
		v := make([]float32, 4)
		for name, err := range map[string]error{
			"anchor": anchorErr(l, h, 0), "sync": l.Sync(h, v, 1), "begin": l.Begin(h, v, 1),
			"finish": finishErr(l, h, 0),
		} {
			if want(t, Busy, err); !strings.Contains(Text(err), "wait for it") {
				t.Errorf("%s: %q", name, Text(err))
			}
		}
		want(t, Invalid, l.Poll(h, 0)) // is none of them
		want(t, OK, l.Progress(h, 3))
		close(f.member)
		want(t, OK, <-waiting)
	})
}

func TestARoundInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		l, h := joined(t, f)
		v := make([]float32, 4)
		want(t, Invalid, finishErr(l, h, 0))
		want(t, Invalid, l.Poll(h, 0))
		want(t, OK, l.Begin(h, v, 1))
		for _, err := range []error{anchorErr(l, h, 0), l.Sync(h, v, 1), l.Begin(h, v, 1)} {
			want(t, Busy, err)
		}
		want(t, Again, l.Poll(h, 0))
		want(t, Again, l.Poll(h, 200))
		want(t, Again, finishErr(l, h, 100))
		_, err := l.Finish(h, v[:3], -1)
		want(t, Invalid, err)
		polled := make(chan error)
		go func() { polled <- l.Poll(h, -1) }()
		synctest.Wait()
		close(f.current.done)
		want(t, OK, <-polled)
		slot, err := l.Finish(h, v, 0)
		if want(t, OK, err); slot != 1 || v[0] != 1 {
			t.Errorf("slot %d, params %v", slot, v)
		}
		want(t, Invalid, finishErr(l, h, 0))
	})
}

func TestSyncIsBeginAndFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		l, h := joined(t, f)
		synced := make(chan error)
		v := make([]float32, 4)
		go func() { synced <- l.Sync(h, v, 1) }()
		synctest.Wait()
		want(t, Again, l.Poll(h, 0))
		close(f.current.done)
		want(t, OK, <-synced)
		want(t, OK, l.Begin(h, v, 1))
		f.current.err = p2pdiloco.ErrRunEnded
		close(f.current.done)
		want(t, OK, l.Poll(h, -1)) // finish need not wait
		slot, err := l.Finish(h, v, -1)
		if want(t, Ended, err); slot != 2 || v[0] != 2 || Text(err) != "" {
			t.Errorf("slot %d, params %v, %q", slot, v, Text(err))
		}
	})
}

func TestErrorsOfARound(t *testing.T) {
	for code, err := range map[Code]error{
		Missed: p2pdiloco.ErrMissed, BranchEnded: p2pdiloco.ErrBranchEnded,
		NotFinite: p2pdiloco.ErrNotFinite, Invalid: p2pdiloco.ErrNoAnchor,
		Failed: errors.New("disk full"),
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{}
			l, h := joined(t, f)
			v := make([]float32, 4)
			f.err = err
			want(t, code, l.Begin(h, v, 1))
			want(t, code, l.Sync(h, v, 1))
			f.err = nil
			want(t, OK, l.Begin(h, v, 1)) // the other left nothing open
			f.current.err = err
			close(f.current.done)
			want(t, code, l.Poll(h, -1))
			want(t, code, finishErr(l, h, -1))
			want(t, OK, anchorErr(l, h, -1))
		})
	}
}

func TestBeginBeforeTheRunIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := with(t, &fake{}, nil)
		want(t, Invalid, l.Begin(h, make([]float32, 4), 1))
		want(t, Invalid, l.Sync(h, make([]float32, 4), 1))
	})
}

// The parameters of join are read only until anchor has returned without error.
func TestInitialParametersAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, params, dst := &fake{}, []float32{1, 2, 3, 4}, make([]float32, 4)
		l, h := with(t, f, params)
		close(f.joined)
		want(t, Again, anchorErr(l, h, 0))
		if err := f.options.Init(dst); err != nil || dst[3] != 4 {
			t.Errorf("initial parameters %v, %v", dst, err)
		}
		if err := f.options.Init(dst[:3]); err == nil ||
			!strings.Contains(err.Error(), "4 initial parameters were given to join, the model has 3") {
			t.Errorf("for another model: %v", err)
		}
		close(f.member)
		want(t, OK, anchorErr(l, h, -1))
		if err := f.options.Init(dst); err == nil {
			t.Error("they are read after anchor")
		}
	})
}

func TestVector(t *testing.T) {
	x := [3]float32{1, 2, 3}
	p := unsafe.Pointer(&x)
	if v, err := Vector(p, 2); err != nil || len(v) != 2 || v[1] != 2 {
		t.Errorf("%v, %v", v, err)
	}
	if v, err := Vector(nil, 0); err != nil || v != nil {
		t.Errorf("no vector: %v, %v", v, err)
	}
	for _, err := range []error{second(Vector(nil, 3)), second(Vector(p, 1<<62)), second(Vector(unsafe.Add(p, 1), 1))} {
		want(t, Invalid, err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestAWrongNumberOfInitialParameters(t *testing.T) {
	_, err := newLibrary().Join(config, make([]float32, 5))
	if want(t, Invalid, err); !strings.Contains(Text(err), "5 initial parameters, the layout has 4") {
		t.Error(Text(err))
	}
}

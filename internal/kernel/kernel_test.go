package kernel

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

type (
	vectors = [][]float32
	scalars = []float32
)

// equation is a kernel and what it computes. x are vectors of equal length, of which it writes the
// first few; the result is what does not go to a vector.
type equation struct {
	name          string
	writes, takes int
	kernel, naive func(x vectors, s scalars) float64
}

// each makes the equation of one coordinate, of which e are the values, one of all.
func each(name string, writes, takes int, kernel func(x vectors, s scalars), naive func(e, s scalars)) equation {
	return equation{name, writes, takes, func(x vectors, s scalars) float64 {
		kernel(x, s)
		return 0
	}, func(x vectors, s scalars) float64 {
		e := make([]float32, takes)
		for j := range x[0] {
			for i := range x {
				e[i] = x[i][j]
			}
			naive(e, s)
			for i := range writes {
				x[i][j] = e[i]
			}
		}
		return 0
	}}
}

func equations() []equation {
	sgd := func(e, s scalars) { e[0] -= float32(s[0] * e[len(e)-1]) }
	momentum := func(e, s scalars) { e[1] = float32(s[1]*e[1]) + e[2] }
	return []equation{
		each("Sub", 1, 3, func(x vectors, _ scalars) { Sub(x[0], x[1], x[2]) },
			func(e, _ scalars) { e[0] = e[1] - e[2] }),
		each("Add", 1, 3, func(x vectors, _ scalars) { Add(x[0], x[1], x[2]) },
			func(e, _ scalars) { e[0] = e[1] + e[2] }),
		each("Mul", 1, 3, func(x vectors, _ scalars) { Mul(x[0], x[1], x[2]) },
			func(e, _ scalars) { e[0] = e[1] * e[2] }),
		each("Mix", 1, 3, func(x vectors, s scalars) { Mix(x[0], x[1], x[2], s[0]) },
			func(e, s scalars) { e[0] = float32(s[0]*e[1]) + float32((1-s[0])*e[2]) }),
		each("SGDStep", 1, 2, func(x vectors, s scalars) { SGDStep(x[0], x[1], s[0]) }, sgd),
		each("MomentumStep", 2, 3, func(x vectors, s scalars) { MomentumStep(x[0], x[1], x[2], s[0], s[1]) },
			func(e, s scalars) {
				momentum(e, s)
				e[0] -= float32(s[0] * e[1])
			}),
		each("NesterovStep", 2, 3, func(x vectors, s scalars) { NesterovStep(x[0], x[1], x[2], s[0], s[1]) },
			func(e, s scalars) {
				momentum(e, s)
				e[0] -= float32(s[0] * (e[2] + float32(s[1]*e[1])))
			}),
		each("DelayedStep", 2, 3, func(x vectors, s scalars) { DelayedStep(x[0], x[1], x[2], s[1], s[0]) },
			func(e, s scalars) {
				sgd(e, s)
				e[1] += float32(s[1] * e[2])
			}),
		each("DelayedMomentumStep", 3, 4, func(x vectors, s scalars) {
			DelayedMomentumStep(x[0], x[1], x[2], x[3], s[3], s[4], s[0], s[1], s[2])
		}, func(e, s scalars) {
			e[1] = float32(s[1]*e[1]) + float32(s[2]*(e[2]+float32(s[3]*e[3])))
			e[0] -= float32(s[4]*e[3]) + float32(s[0]*float32(s[1]*e[1]))
			e[2] = 0
		}),
		each("AdamStep", 3, 4, func(x vectors, s scalars) {
			AdamStep(x[0], x[1], x[2], x[3], Adam{s[0], s[1], s[2], s[3], s[4], s[5], s[6]})
		}, func(e, s scalars) {
			e[1] = float32(s[0]*e[1]) + float32(s[2]*e[3])
			e[2] = float32(s[1]*e[2]) + float32(float32(s[3]*e[3])*e[3])
			if e[2] > math.MaxFloat32 {
				e[2] = math.MaxFloat32
			}
			e[0] -= float32(s[4]*e[1]) / (float32(float32(math.Sqrt(float64(e[2])))/s[5]) + s[6])
		}),
		{"NormSq", 0, 1, func(x vectors, _ scalars) float64 { return NormSq(x[0]) }, naiveDot},
		{"Dot", 0, 2, func(x vectors, _ scalars) float64 { return Dot(x[0], x[1]) }, naiveDot},
		{"Dot in pieces", 0, 2, func(x vectors, _ scalars) float64 {
			var s DotSum
			cut := len(x[0]) / 3 &^ 7
			s.Add(x[0][:cut], x[1][:cut])
			s.Add(x[0][cut:], x[1][cut:])
			return s.Value()
		}, naiveDot},
		{
			"Bounded", 0, 1, func(x vectors, _ scalars) float64 { return float64(Bounded(x[0])) },
			func(x vectors, _ scalars) float64 {
				return float64(slices.IndexFunc(x[0], func(v float32) bool { return !(v < Limit && v > -Limit) }))
			},
		},
	}
}

func naiveDot(x vectors, _ scalars) float64 {
	var lane [8]float64
	for j, v := range x[0] {
		lane[j%8] += float64(float64(v) * float64(x[len(x)-1][j]))
	}
	return lane[0] + lane[4] + (lane[2] + lane[6]) + (lane[1] + lane[5] + (lane[3] + lane[7]))
}

// reductions are those of n columns. The definition of a trimmed mean is that at TrimmedMeanInto,
// word for word: what falls out when a value joins the lanes is the one in the middle of 2k+1.
func reductions(n int) []equation {
	type naive func(v scalars) float32
	reduce := func(name string, kernel func(dst scalars, cols vectors, s scalars), naive naive) equation {
		return each(fmt.Sprint(name, "/N=", n), 1, n+1, func(x vectors, s scalars) { kernel(x[0], x[1:], s[:n]) },
			func(e, s scalars) {
				v := make([]float32, n)
				for i := range v {
					v[i] = s[i] * e[i+1]
				}
				e[0] = naive(v)
			})
	}
	trim := func(k int) func(v scalars) float32 {
		return func(v scalars) (sum float32) {
			lanes := slices.Clone(v[:2*k])
			for _, x := range v[2*k:] {
				lanes = append(lanes, x)
				slices.SortFunc(lanes, cmp.Compare[float32])
				sum += lanes[k]
				lanes = slices.Delete(lanes, k, k+1)
			}
			return sum / float32(n-2*k)
		}
	}
	all := []equation{
		reduce("MeanInto", MeanInto, func(v scalars) (sum float32) {
			for _, x := range v {
				sum += x
			}
			return sum
		}),
		reduce("Median", func(dst scalars, cols vectors, s scalars) {
			TrimmedMeanInto(dst, cols, s, (n-1)/2)
		}, func(v scalars) float32 {
			slices.Sort(v)
			return (0 + v[(n-1)/2] + v[n/2]) / 2
		}),
	}
	for k := 0; 2*k < n; k++ {
		all = append(all, reduce(fmt.Sprint("TrimmedMeanInto/k=", k), func(dst scalars, cols vectors, s scalars) {
			TrimmedMeanInto(dst, cols, s, k)
		}, trim(k)), reduce(fmt.Sprint("Lanes/k=", k), func(dst scalars, cols vectors, s scalars) {
			addLanes(dst, cols, s, k)
		}, trim(k)))
	}
	return all
}

// addLanes adds one contribution after the other. What is behind the lanes must not be read.
func addLanes(dst scalars, cols vectors, s scalars, k int) {
	room := slices.Repeat(scalars{float32(math.NaN())}, (2*k+1)*len(dst))
	for i, c := range cols {
		AddLane(room[:Lanes(k, i+1)*len(dst)], c, s[i], k, i)
	}
	FinishLanes(dst, room, k, len(cols))
}

// Every kernel is its equation, each operation rounded once. Every fast path gives the bits of its
// plain loop, at every length and alignment, for whatever values, and writes nowhere else.
func TestKernelsAreTheirEquations(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, e := range equations() {
		t.Run(e.name, func(t *testing.T) {
			for n := range 200 {
				if n >= 140 {
					n = r.IntN(1100)
				}
				e.check(t, newInput(r, e.takes, n))
			}
			e.mustPanic(t)
		})
	}
	for n := 1; n <= 17; n++ {
		for _, e := range reductions(n) {
			t.Run(e.name, func(t *testing.T) {
				for range 20 {
					e.check(t, newInput(r, e.takes, r.IntN(400)))
				}
				e.mustPanic(t)
			})
		}
	}
}

// check runs the kernel with its fast path and without, and the equation where values are finite.
func (e equation) check(t *testing.T, in input) {
	t.Helper()
	run := func(fast bool, f func(x vectors, s scalars) float64) (after input, result float64) {
		defer SetFast(SetFast(fast))
		after = in.clone()
		return after, f(after.x, after.scalars)
	}
	plain, want := run(false, e.kernel)
	same := func(what string, got input, result float64) {
		t.Helper()
		if math.Float64bits(result) != math.Float64bits(want) && (result == result || want == want) {
			t.Fatalf("%s, %d elements: %v, the plain loop gives %v", what, len(in.x[0]), result, want)
		}
		for i, m := range got.memory {
			for j, v := range m {
				if w := plain.memory[i][j]; !sameBits(v, w) {
					t.Fatalf("%s, %d elements: element %d of vector %d's memory is %v (%08x), the plain loop gives "+
						"%v (%08x)", what, len(in.x[0]), j, i, v, math.Float32bits(v), w, math.Float32bits(w))
				}
			}
		}
	}
	after, result := run(true, e.kernel)
	same("fast", after, result)
	if in.finite() && (e.writes < 2 || !in.shared) {
		after, result = run(false, e.naive)
		same("equation", after, result)
	}
}

// mustPanic gives the kernel vectors of other lengths.
func (e equation) mustPanic(t *testing.T) {
	t.Helper()
	for i := range e.takes {
		x := slices.Repeat(vectors{make([]float32, 3)}, e.takes)
		if x[i] = make([]float32, 4); e.takes > 1 {
			panics(t, fmt.Sprint(e.name, i), func() { e.kernel(x, make([]float32, max(e.takes, 8))) })
		}
	}
}

func panics(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", what)
		}
	}()
	f()
}

func TestLengthsMustAgree(t *testing.T) {
	x := make([]float32, 3)
	for name, f := range map[string]func(){
		"MeanInto scale":  func() { MeanInto(x, vectors{x}, scalars{1, 1}) },
		"MeanInto empty":  func() { MeanInto(x, nil, nil) },
		"TrimmedMeanInto": func() { TrimmedMeanInto(x, vectors{x, x}, scalars{1, 1}, 1) },
		"negative trim":   func() { TrimmedMeanInto(x, vectors{x, x}, scalars{1, 1}, -1) },
		"AddLane":         func() { AddLane(x, x, 1, 0, -1) },
		"FinishLanes":     func() { FinishLanes(x, x, 1, 2) },
		"GetFloat32s":     func() { GetFloat32s(x, make([]byte, 16)) },
		"Float32s":        func() { Float32s(make([]byte, 5)) },
	} {
		panics(t, name, f)
	}
}

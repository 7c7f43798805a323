package kernel

// Dot returns the scalar product of two vectors of equal length, in float64. Products are exact, so
// it makes no difference whether they are fused with the sum. Lanes and their order are those of
// NormSq: Dot(x, x) has its bits.
func Dot(x, y []float32) float64 {
	var s DotSum
	s.Add(x, y)
	return s.Value()
}

// DotSum is a scalar product that is summed piece by piece. Each piece but the last has a multiple
// of 8 elements: then the bits are those of Dot over the whole.
type DotSum struct{ lanes [8]float64 }

// Add takes in the next piece of both vectors.
func (s *DotSum) Add(x, y []float32) {
	same(len(x), len(y))
	i := strided(len(x), stride)
	dotAVX2(&s.lanes, x[:i], y)
	dotGo(&s.lanes, x[i:], y[i:])
}

// Value is the sum of all pieces.
func (s *DotSum) Value() float64 { return combine(&s.lanes) }

// dotGo adds the product of elements j to lane j%8.
func dotGo(l *[8]float64, x, y []float32) {
	for len(x) >= len(l) && len(y) >= len(l) {
		a, b := (*[8]float32)(x), (*[8]float32)(y)
		l[0] += product(a[0], b[0])
		l[1] += product(a[1], b[1])
		l[2] += product(a[2], b[2])
		l[3] += product(a[3], b[3])
		l[4] += product(a[4], b[4])
		l[5] += product(a[5], b[5])
		l[6] += product(a[6], b[6])
		l[7] += product(a[7], b[7])
		x, y = x[len(l):], y[len(l):]
	}
	for j, v := range x {
		l[j] += product(v, y[j])
	}
}

// product returns an exact value: 24 significant bits each make 48 of float64's 53.
func product(a, b float32) float64 { return float64(float64(a) * float64(b)) }

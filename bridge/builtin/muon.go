package builtin

import "math"

// muon is Muon (Jordan et al. 2024) for the matrices of the blocks, as MuLoCo has it for DiLoCo's
// inner steps (arXiv 2505.23725). Embeddings, gains and biases stay with AdamW. For a matrix with
// rows r, columns c and gradient g:
//
//	m = mu m + g
//	u = NS5(g + mu m) · 0.2 sqrt(max(r, c))
//	w -= rate (u + decay w)
//
// The factor gives u the size of an AdamW update (arXiv 2502.16982), so that both go by one rate.
type muon struct {
	cores    cores
	matrices []shaped
	u        []float32    // of the largest matrix
	room     [3][]float32 // of NS5
}

// shaped is where a matrix lies in the flat vector.
type shaped struct {
	span
	rows, cols int
}

const muonMomentum = 0.95

// newMuon is for the matrices of a model, and for as many cores as its steps use.
func newMuon(s shape, c cores) *muon {
	m, at, largest, square := &muon{cores: c}, 0, 0, 0
	s.walk(&params{}, func(_ *[]float32, name string, dims ...int) {
		n := dims[0]
		if len(dims) == 2 {
			n *= dims[1]
			if name != "wte" && name != "wpe" {
				m.matrices = append(m.matrices, shaped{span{at, at + n}, dims[0], dims[1]})
				largest, square = max(largest, n), max(square, min(dims[0], dims[1]))
			}
		}
		at += n
	})
	m.u, m.room[0] = make([]float32, largest), make([]float32, largest)
	m.room[1], m.room[2] = make([]float32, square*square), make([]float32, square*square)
	return m
}

// step updates the matrices in values. momentum is as long, and holds m.
func (m *muon) step(values, grad, momentum []float32, rate, decay float32) {
	for _, s := range m.matrices {
		w, g, v := values[s.begin:s.end], grad[s.begin:s.end], momentum[s.begin:s.end]
		u := m.u[:len(w)]
		for i, x := range g {
			v[i] = muonMomentum*v[i] + x
			u[i] = x + muonMomentum*v[i]
		}
		m.orthogonalize(u, s.rows, s.cols)
		size := float32(0.2 * math.Sqrt(float64(max(s.rows, s.cols))))
		for i, x := range u {
			w[i] -= rate * (size*x + decay*w[i])
		}
	}
}

// orthogonalize puts in the place of x (rows x cols) about the nearest matrix whose singular values
// are 1: five steps of the Newton-Schulz iteration (NS5) with the quintic polynomial of Jordan et
// al., which leaves them between about 0.7 and 1.2.
//
//	x = x / |x|;  a = x xT;  x = 3.4445 x + (-4.775 a + 2.0315 a²) x, five times
//
// A matrix that is taller than wide is taken as its transpose.
func (m *muon) orthogonalize(x []float32, rows, cols int) {
	norm := 0.0
	for _, v := range x {
		norm += float64(v) * float64(v)
	}
	gemm.Sscal(len(x), float32(1/(math.Sqrt(norm)+1e-7)), x, 1)
	small, large := min(rows, cols), max(rows, cols)
	next, a, b := m.room[0][:len(x)], m.room[1][:small*small], m.room[2][:small*small]
	squares := mat(a, small)
	for range 5 {
		view := mat(x, cols)
		if rows > cols {
			m.cores.matmul(squares, view.t(), view, small, small, large, false)
		} else {
			m.cores.matmul(squares, view, view.t(), small, small, large, false)
		}
		m.cores.matmul(mat(b, small), squares, squares, small, small, small, false)
		for i := range b {
			b[i] = -4.7750*a[i] + 2.0315*b[i]
		}
		if rows > cols { // b is symmetric
			m.cores.matmul(mat(next, cols), view, mat(b, small), rows, cols, small, false)
		} else {
			m.cores.matmul(mat(next, cols), mat(b, small), view, rows, cols, small, false)
		}
		for i, v := range next {
			x[i] = 3.4445*x[i] + v
		}
	}
}

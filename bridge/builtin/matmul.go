package builtin

import (
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
)

// How matmul cuts its output. gonum multiplies in the calling goroutine only when the output is
// under four 64x64 blocks: tiles of 1x3 blocks stay there, so a step takes no more cores than it
// was given, and run a third faster than gonum's own cut (on an EPYC 9005, 20 against 16 GFLOP/s a
// core), since long rows suit its vector kernels. The depth keeps what a tile reads of its second
// factor within a core's L2 cache.
const (
	tileRows  = 64
	tileCols  = 192
	tileDepth = 1024
)

var gemm gonum.Implementation

// cores is how many goroutines may work on one operation. The work is cut in a way that does not
// depend on their number, and one goroutine does each piece, so the results do not depend on it
// either.
type cores int

// split calls f on contiguous parts that cover [0, n), one part a goroutine, and returns when all
// are done.
func (c cores) split(n int, f func(begin, end int)) {
	parts := min(int(c), n)
	if parts <= 1 {
		f(0, n)
		return
	}
	var wg sync.WaitGroup
	for i := 1; i < parts; i++ {
		wg.Go(func() { f(i*n/parts, (i+1)*n/parts) })
	}
	f(0, n/parts)
	wg.Wait()
}

// matrix is a row-major view: element (i, j) is data[i*stride+j], or (j, i) when transposed.
type matrix struct {
	data       []float32
	stride     int
	transposed blas.Transpose
}

func mat(data []float32, stride int) matrix { return matrix{data, stride, blas.NoTrans} }

// t is the transpose of m, a view too.
func (m matrix) t() matrix { return matrix{m.data, m.stride, blas.Trans} }

// slice returns m without its first i rows and j columns, as the product sees them.
func (m matrix) slice(i, j int) []float32 {
	if m.transposed == blas.Trans {
		i, j = j, i
	}
	return m.data[i*m.stride+j:]
}

// matmul computes c = a·b, or c += a·b when add is set, for a (m x k), b (k x n) and c (m x n).
func (c cores) matmul(dst matrix, a, b matrix, m, n, k int, add bool) {
	colTiles := (n + tileCols - 1) / tileCols
	rowTiles := (m + tileRows - 1) / tileRows
	c.split(rowTiles*colTiles, func(begin, end int) {
		for tile := begin; tile < end; tile++ {
			i, j := tile/colTiles*tileRows, tile%colTiles*tileCols
			matmulTile(dst, a, b, i, j, min(tileRows, m-i), min(tileCols, n-j), k, add)
		}
	})
}

func matmulTile(dst, a, b matrix, i, j, m, n, k int, add bool) {
	beta := float32(0)
	if add {
		beta = 1
	}
	for l := 0; l < k; l += tileDepth {
		gemm.Sgemm(a.transposed, b.transposed, m, n, min(tileDepth, k-l), 1,
			a.slice(i, l), a.stride, b.slice(l, j), b.stride, beta, dst.slice(i, j), dst.stride)
		beta = 1
	}
}

// addTo adds src to dst, element by element.
func addTo(dst, src []float32) { gemm.Saxpy(len(src), 1, src, 1, dst, 1) }

// addColumnSums adds the sum of the rows of m (rows x len(dst)) to dst.
func addColumnSums(dst, m []float32) {
	for n := len(dst); len(m) > 0; m = m[n:] {
		addTo(dst, m[:n])
	}
}

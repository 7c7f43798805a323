//go:build !purego

package kernel

const (
	reachingStride = 16
	collectStride  = 64
)

// maximaFast takes all of x's strips, or none. It returns the largest magnitude, too.
func maximaFast(sizes []uint32, x []float32, each int) (taken int, most uint32) {
	if !fast.Load() {
		return 0, 0
	}
	n := len(x) - len(x)%(topKLanes*each)
	return n, maximaAVX2(sizes, x[:n], each)
}

func reachingFast(sizes []uint32, bound uint32) (taken, reaching int) {
	n := done(len(sizes), reachingStride)
	return n, reachingAVX2(sizes[:n], bound)
}

func collectFast(at []uint16, x []float32, bound uint32) (taken, reaching int) {
	n := done(len(x), collectStride)
	return n, collectAVX2(at, x[:n], bound)
}

// The following functions are in topk_amd64.s. Vectors have whole strides, and what is written has
// room for what they give.

// maximaAVX2 takes strips of eight times each elements.
//
//go:noescape
func maximaAVX2(sizes []uint32, x []float32, each int) uint32

//go:noescape
func reachingAVX2(sizes []uint32, bound uint32) int

// collectAVX2 writes the positions of elements that reach bound, and up to four more of anything.
//
//go:noescape
func collectAVX2(at []uint16, x []float32, bound uint32) int

package kernel

// Reductions take N columns, one a contribution, and one scale a column; the value of column i at
// coordinate j is float32(scale[i]*cols[i][j]). They work through block coordinates at a time, so
// that the running values stay in the first-level cache while column after column passes.
const block = 256

// MeanInto sets dst[j] to the sum of the columns' values in the order given, starting from +0. With
// MeanScales that is the weighted mean; with scales times ClipScales, the clipped one.
func MeanInto(dst []float32, cols [][]float32, scale []float32) {
	checkColumns(dst, cols, scale)
	n := strided(len(dst), reduceStride)
	meanAVX2(dst[:n], cols, scale, 1)
	meanGo(dst, cols, scale, n)
}

// meanGo does the coordinates from begin on.
func meanGo(dst []float32, cols [][]float32, scale []float32, begin int) {
	eachBlock(dst, begin, func(d []float32, at int) {
		var sum [block]float32
		addColumns(sum[:len(d)], cols, scale, at)
		copy(d, sum[:])
	})
}

// TrimmedMeanInto sets dst[j] to the mean of the columns' values without the k lowest and the k
// highest of them. It panics unless 2k < N. Weights play no part; scale carries clips and
// discounts.
//
// The order of the sum: columns pass in the order given. The first 2k values fill the lanes, k
// lowest and k highest. Each later value joins the k lowest and pushes the highest of those out;
// that one joins the k highest and pushes the lowest of those out; and that one, which k seen
// values are below and k above, is added to the sum, which starts from +0 and is divided by N-2k at
// the end. A value that ends up trimmed has never been in the sum, so not even 1e30 can erase the
// others' digits, as it would in sum - lowest - highest. Among equal values it makes no difference
// which is pushed out.
func TrimmedMeanInto(dst []float32, cols [][]float32, scale []float32, k int) {
	checkColumns(dst, cols, scale)
	kept := len(cols) - 2*k
	if k < 0 || kept < 1 {
		panic("kernel: trimming leaves nothing")
	}
	trimmedMeanGo(dst, cols, scale, k, trimFast(dst, cols, scale, k))
}

// trimmedMeanGo does the coordinates from begin on.
func trimmedMeanGo(dst []float32, cols [][]float32, scale []float32, k, begin int) {
	if begin == len(dst) {
		return
	}
	lanes := make([]float32, 2*k*block)
	eachBlock(dst, begin, func(d []float32, at int) {
		var sum [block]float32
		s := sum[:len(d)]
		switch k {
		case 0:
			addColumns(s, cols, scale, at)
		case 1:
			trimOne(s, cols, scale, at)
		default:
			trimMany(s, lanes, cols, scale, at, k)
		}
		n := float32(len(cols) - 2*k)
		for j := range d {
			d[j] = s[j] / n
		}
	})
}

func checkColumns(dst []float32, cols [][]float32, scale []float32) {
	if len(cols) == 0 {
		panic("kernel: nothing to reduce")
	}
	same(len(cols), len(scale))
	for _, c := range cols {
		same(len(dst), len(c))
	}
}

// eachBlock calls f for each block of dst from begin on and says where it lies.
func eachBlock(dst []float32, begin int, f func(d []float32, at int)) {
	for at := begin; at < len(dst); at += block {
		f(dst[at:min(at+block, len(dst))], at)
	}
}

// addColumns adds the columns' values at coordinates at, at+1, ... to sum, four columns a pass.
func addColumns(sum []float32, cols [][]float32, scale []float32, at int) {
	n := len(sum)
	i := 0
	for ; i+4 <= len(cols); i += 4 {
		a, b, c, d := cols[i][at:][:n], cols[i+1][at:][:n], cols[i+2][at:][:n], cols[i+3][at:][:n]
		p, q, r, s := scale[i], scale[i+1], scale[i+2], scale[i+3]
		for j := range sum {
			sum[j] = sum[j] + float32(p*a[j]) + float32(q*b[j]) + float32(r*c[j]) + float32(s*d[j])
		}
	}
	for ; i < len(cols); i++ {
		s := scale[i]
		for j, v := range cols[i][at:][:n] {
			sum[j] += float32(s * v)
		}
	}
}

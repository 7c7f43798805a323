package kernel

// trimFast has the assembly take the front of dst, and returns how many elements that was.
func trimFast(dst []float32, cols [][]float32, scale []float32, k int) int {
	n, kept := strided(len(dst), reduceStride), float32(len(cols)-2*k)
	switch k {
	case 0:
		meanAVX2(dst[:n], cols, scale, kept)
	case 1:
		trim1AVX2(dst[:n], cols, scale, kept)
	case 2:
		trim2AVX2(dst[:n], cols, scale, kept)
	case 3:
		trim3AVX2(dst[:n], cols, scale, kept)
	default:
		if n > 0 {
			trimAVX2(dst[:n], cols, scale, kept, make([]float32, 2*k*stride))
		}
	}
	return n
}

// trimOne is trimMany for k = 1, each column in one pass.
func trimOne(sum []float32, cols [][]float32, scale []float32, at int) {
	n := len(sum)
	var low, high [block]float32
	lo, hi := low[:n], high[:n]
	a, b := cols[0][at:][:n], cols[1][at:][:n]
	p, q := scale[0], scale[1]
	for j := range sum {
		x, y := float32(p*a[j]), float32(q*b[j])
		lo[j], hi[j] = min(x, y), max(x, y)
	}
	for i, c := range cols[2:] {
		s := scale[i+2]
		for j, v := range c[at:][:n] {
			x := float32(s * v)
			y := max(lo[j], x)
			lo[j] = min(lo[j], x)
			sum[j] += min(hi[j], y)
			hi[j] = max(hi[j], y)
		}
	}
}

// trimMany adds to sum what TrimmedMeanInto says. lanes has room for 2k blocks.
func trimMany(sum, lanes []float32, cols [][]float32, scale []float32, at, k int) {
	lane := func(l int) []float32 {
		if l == 2*k {
			return sum
		}
		return lanes[l*block:][:len(sum)]
	}
	var value [block]float32
	x := value[:len(sum)]
	for i, c := range cols {
		scaled(x, c, scale[i], at)
		addBlock(lane, x, k, i)
	}
}

// scaled sets dst to the column's values from coordinate at.
func scaled(dst, col []float32, scale float32, at int) {
	col = col[at:][:len(dst)]
	for j := range dst {
		dst[j] = float32(scale * col[j])
	}
}

// order swaps a[j] and b[j] where a[j] is the greater.
func order(a, b []float32) {
	b = b[:len(a)]
	for j, x := range a {
		y := b[j]
		a[j], b[j] = min(x, y), max(x, y)
	}
}

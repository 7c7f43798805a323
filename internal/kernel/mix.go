package kernel

// Mix sets dst[j] = alpha a[j] + (1-alpha) b[j]: how far live parameters a keep to themselves where
// an anchor b lands in them (Streaming DiLoCo, arXiv 2501.18512). With alpha 0 it is b, bit for
// bit, whatever a is. dst may be a or b.
func Mix(dst, a, b []float32, alpha float32) {
	same(len(dst), len(a), len(b))
	if alpha == 0 {
		copy(dst, b)
		return
	}
	rest := 1 - alpha
	i := strided(len(dst), stride)
	mixAVX2(dst[:i], a, b, alpha, rest)
	mixGo(dst[i:], a[i:], b[i:], alpha, rest)
}

func mixGo(dst, a, b []float32, alpha, rest float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for j := range dst {
		dst[j] = float32(alpha*a[j]) + float32(rest*b[j])
	}
}

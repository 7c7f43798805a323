package kernel

// Mix sets dst[j] = alpha a[j] + (1-alpha) b[j]: how far live parameters a keep to themselves where
// an anchor b lands in them (Streaming DiLoCo, arXiv 2501.18512). With alpha 0 it is b, bit for
// bit, whatever a is. dst may be a or b.
func Mix(dst, a, b []float32, alpha float32) {
	if alpha == 0 {
		same(len(dst), len(a), len(b))
		copy(dst, b)
		return
	}
	step(dst, a, b, alpha, 1-alpha, mixAVX2, mixGo)
}

func mixGo(dst, a, b []float32, alpha, rest float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for j := range dst {
		dst[j] = float32(alpha*a[j]) + float32(rest*b[j])
	}
}

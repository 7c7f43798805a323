package builtin

// forward computes the mean loss over b, in nats per byte. b holds at most as many sequences as the
// model has room for, and its bytes are below the vocabulary.
func (m *model) forward(b batch) float64 {
	rows := len(b.inputs)
	m.embed(m.stream(0)[:rows*m.width], b.inputs)
	for l := range m.layers {
		m.forwardBlock(l, rows)
	}
	last := m.last[:rows*m.width]
	m.lnf.forward(m.cores, m.final, last)
	logits := m.logits[:rows*m.vocab]
	m.cores.matmul(mat(logits, m.vocab), mat(m.final.out, m.width), mat(m.wte, m.width).t(), rows, m.vocab, m.width,
		false)
	return softmaxLoss(m.cores, logits, b.targets)
}

// stream is the residual stream before block l, or after the last one.
func (m *model) stream(l int) []float32 {
	if l == len(m.layers) {
		return m.last
	}
	return m.layers[l].in
}

// embed writes the sum of byte and position embedding of every position.
func (m *model) embed(out []float32, inputs []byte) {
	d := m.width
	for r, token := range inputs {
		row, at := out[r*d:(r+1)*d], r%m.context
		copy(row, m.wte[int(token)*d:(int(token)+1)*d])
		addTo(row, m.wpe[at*d:(at+1)*d])
	}
}

// forwardBlock: mid = in + proj(attention(qkv(ln1(in)))); out = mid + down(gelu(up(ln2(mid)))).
func (m *model) forwardBlock(l, rows int) {
	b, a, n := &m.blocks[l], &m.layers[l], rows*m.width
	in, mid, out := a.in[:n], a.mid[:n], m.stream(l + 1)[:n]

	b.ln1.forward(m.cores, a.ln1, in)
	b.qkv.forward(m.cores, a.qkv, a.ln1.out[:n], nil)
	m.attention().forward(m.cores, a.mixed, a.weights, a.qkv[:3*n])
	b.proj.forward(m.cores, mid, a.mixed[:n], in)

	b.ln2.forward(m.cores, a.ln2, mid)
	b.up.forward(m.cores, a.up, a.ln2.out[:n], nil)
	geluForward(m.cores, a.gelu[:4*n], a.gate[:4*n], a.up[:4*n])
	b.down.forward(m.cores, out, a.gelu[:4*n], mid)
}

func (m *model) attention() attention { return attention{shape: m.shape, steps: m.context} }

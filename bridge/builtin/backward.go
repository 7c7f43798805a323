package builtin

// backward computes the gradient of the last forward's mean loss into m.grads, replacing what was
// there. b must be the same batch. It is the forward pass read from the end: the gradient of the
// residual stream goes down through the blocks, and every branch adds its part.
func (m *model) backward(b batch) {
	rows, n := len(b.inputs), len(b.inputs)*m.width
	clear(m.grads.flat)
	clear(m.back.stream[:n])

	logits := m.logits[:rows*m.vocab]
	softmaxLossBackward(m.cores, logits, b.targets)
	narrow, stream := m.back.narrow[:n], m.back.stream[:n]
	m.cores.matmul(mat(narrow, m.width), mat(logits, m.vocab), mat(m.wte, m.width), rows, m.width, m.vocab, false)
	m.cores.matmul(mat(m.grads.wte, m.width), mat(logits, m.vocab).t(), mat(m.final.out, m.width), m.vocab, m.width,
		rows, true)
	m.lnf.backward(m.cores, m.grads.lnf, stream, narrow, m.final)

	for l := len(m.layers) - 1; l >= 0; l-- {
		m.backwardBlock(l, rows)
	}
	m.embedBackward(stream, b.inputs)
}

// backwardBlock turns m.back.stream, the gradient after block l, into that before it.
func (m *model) backwardBlock(l, rows int) {
	b, g, a, n := &m.blocks[l], &m.grads.blocks[l], &m.layers[l], rows*m.width
	stream, narrow, wide, qkv := m.back.stream[:n], m.back.narrow[:n], m.back.wide[:4*n], m.back.qkv[:3*n]

	b.down.backward(m.cores, g.down, wide, stream, a.gelu[:4*n])
	geluBackward(m.cores, wide, a.gate[:4*n], a.up[:4*n])
	b.up.backward(m.cores, g.up, narrow, wide, a.ln2.out[:n])
	b.ln2.backward(m.cores, g.ln2, stream, narrow, a.ln2)

	b.proj.backward(m.cores, g.proj, narrow, stream, a.mixed[:n])
	m.attention().backward(m.cores, qkv, narrow, a.weights, a.qkv[:3*n], m.back.scores)
	b.qkv.backward(m.cores, g.qkv, narrow, qkv, a.ln1.out[:n])
	b.ln1.backward(m.cores, g.ln1, stream, narrow, a.ln1)
}

// embedBackward adds the stream's gradient to the rows that embed read. wte holds the head's
// gradient already.
func (m *model) embedBackward(stream []float32, inputs []byte) {
	d := m.width
	for r, token := range inputs {
		row, at := stream[r*d:(r+1)*d], r%m.context
		addTo(m.grads.wte[int(token)*d:(int(token)+1)*d], row)
		addTo(m.grads.wpe[at*d:(at+1)*d], row)
	}
}

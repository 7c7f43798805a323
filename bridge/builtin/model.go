package builtin

// model is the parameters, their gradients, and the buffers of one step. forward fills the
// activations and backward reads them, so the two are called in turn on the same batch.
type model struct {
	shape
	cores cores
	*params
	grads *params

	layers []activations
	last   []float32 // (rows, width): the residual stream after all blocks
	final  normed    // lnf's
	logits []float32 // (rows, vocab): logits, then probabilities, then their gradient
	back   gradients
}

// activations are what one block keeps for the backward pass. Rows are positions: sequences x
// context.
type activations struct {
	in      []float32 // (rows, width): the residual stream before the block
	ln1     normed
	qkv     []float32 // (rows, 3 width)
	weights []float32 // (sequences, heads, context, context)
	mixed   []float32 // (rows, width): heads' outputs before the projection
	mid     []float32 // (rows, width): the residual stream between attention and MLP
	ln2     normed
	up      []float32 // (rows, 4 width)
	gate    []float32 // (rows, 4 width): GELU's logistic factor
	gelu    []float32 // (rows, 4 width)
}

// gradients are the backward pass's own buffers, used again by every block.
type gradients struct {
	stream []float32 // (rows, width): of the residual stream
	narrow []float32 // (rows, width): of a norm's or the attention's output
	qkv    []float32 // (rows, 3 width)
	wide   []float32 // (rows, 4 width): of the MLP's inner values
	scores []float32 // (sequences, context, context)
}

// newModel makes a model with room for so many sequences a step, parameters zero.
func newModel(s shape, sequences int, c cores) *model {
	rows, d, squares := sequences*s.context, s.width, sequences*s.context*s.context
	values := func(n int) []float32 { return make([]float32, n) }
	m := &model{
		shape: s, cores: c, params: newParams(s), grads: newParams(s),
		layers: make([]activations, s.layers),
		last:   values(rows * d), final: newNormed(rows, d), logits: values(rows * s.vocab),
		back: gradients{
			stream: values(rows * d), narrow: values(rows * d), qkv: values(3 * rows * d), wide: values(4 * rows * d),
			scores: values(squares),
		},
	}
	for i := range m.layers {
		m.layers[i] = activations{
			in: values(rows * d), ln1: newNormed(rows, d), qkv: values(3 * rows * d),
			weights: values(squares * s.heads),
			mixed:   values(rows * d), mid: values(rows * d), ln2: newNormed(rows, d),
			up: values(4 * rows * d), gate: values(4 * rows * d), gelu: values(4 * rows * d),
		}
	}
	return m
}

// bufferElements is the number of values that newModel allocates for activations, give or take some
// rows.
func (s shape) bufferElements(sequences int) uint64 {
	rows, d := uint64(sequences)*uint64(s.context), uint64(s.width)
	squares := rows * uint64(s.context)
	return uint64(s.layers)*(22*rows*d+squares*uint64(s.heads)) + 12*rows*d + squares + rows*uint64(s.vocab)
}

// batch is the input of one step: sequences of the model's context, one after the other, and the
// byte that follows each input.
type batch struct {
	inputs, targets []byte
}

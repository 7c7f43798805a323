package builtin

import "math"

// attention is causal multi-head self-attention over sequences of one length. In the buffers a row
// holds a position's query, key and value, (3, heads, headSize); weights are (sequences, heads,
// steps, steps), zero above the diagonal.
type attention struct {
	shape
	steps int // positions of a sequence
}

func (a attention) scale() float32 { return float32(1 / math.Sqrt(float64(a.headSize()))) }

// head is the query, key and value of one head in one sequence, in qkv or in its gradient.
func (a attention) head(qkv []float32, sequence, head int) (q, k, v matrix) {
	width, at := 3*a.width, sequence*a.steps*3*a.width+head*a.headSize()
	return mat(qkv[at:], width), mat(qkv[at+a.width:], width), mat(qkv[at+2*a.width:], width)
}

// mixed is one head's part of the attention output or its gradient.
func (a attention) mixed(out []float32, sequence, head int) matrix {
	return mat(out[sequence*a.steps*a.width+head*a.headSize():], a.width)
}

func (a attention) square(weights []float32, i int) []float32 {
	n := a.steps * a.steps
	return weights[i*n : (i+1)*n]
}

// forward computes weights = softmax(scale q·kᵀ) under the causal mask, and out = weights·v, (rows,
// width).
func (a attention) forward(c cores, out, weights, qkv []float32) {
	t, hs := a.steps, a.headSize()
	c.split(len(qkv)/(3*a.width*t), func(begin, end int) {
		for s := begin; s < end; s++ {
			for h := range a.heads {
				q, k, v := a.head(qkv, s, h)
				w := a.square(weights, s*a.heads+h)
				cores(1).matmul(mat(w, t), q, k.t(), t, t, hs, false)
				for i := range t {
					causalSoftmax(w[i*t:(i+1)*t], i, a.scale())
				}
				cores(1).matmul(a.mixed(out, s, h), mat(w, t), v, t, hs, t, false)
			}
		}
	})
}

// causalSoftmax turns the scores of position i into weights over positions 0 to i.
func causalSoftmax(row []float32, i int, scale float32) {
	seen := row[:i+1]
	top := seen[0]
	for _, v := range seen {
		top = max(top, v)
	}
	sum := float32(0)
	for j, v := range seen {
		seen[j] = exp((v - top) * scale)
		sum += seen[j]
	}
	inverse := 1 / sum
	for j := range seen {
		seen[j] *= inverse
	}
	clear(row[i+1:])
}

// backward computes the gradient of qkv from dOut, that of the output. scratch is (sequences,
// steps, steps).
func (a attention) backward(c cores, dQKV, dOut, weights, qkv, scratch []float32) {
	t, hs := a.steps, a.headSize()
	c.split(len(qkv)/(3*a.width*t), func(begin, end int) {
		for s := begin; s < end; s++ {
			for h := range a.heads {
				q, k, v := a.head(qkv, s, h)
				dq, dk, dv := a.head(dQKV, s, h)
				w, dw, do := a.square(weights, s*a.heads+h), a.square(scratch, s), a.mixed(dOut, s, h)
				cores(1).matmul(dv, mat(w, t).t(), do, t, hs, t, false)
				cores(1).matmul(mat(dw, t), do, v.t(), t, t, hs, false)
				for i := range t {
					causalSoftmaxBackward(dw[i*t:(i+1)*t], w[i*t:(i+1)*t], i, a.scale())
				}
				cores(1).matmul(dq, mat(dw, t), k, t, hs, t, false)
				cores(1).matmul(dk, mat(dw, t).t(), q, t, hs, t, false)
			}
		}
	})
}

// causalSoftmaxBackward turns the gradient of position i's weights into that of its scores.
func causalSoftmaxBackward(grad, weights []float32, i int, scale float32) {
	seen := grad[:i+1]
	dot := float32(0)
	for j, g := range seen {
		dot += g * weights[j]
	}
	for j, g := range seen {
		seen[j] = weights[j] * (g - dot) * scale
	}
	clear(grad[i+1:])
}

package builtin

import "math"

const normEpsilon = 1e-5 // GPT-2's

// geluScale and geluCube are those of the tanh form of GELU, written with a logistic function:
// tanh(u) = 2 logistic(2u) - 1.
const (
	geluScale = 2 * 0.7978845608028654 // 2 sqrt(2/pi)
	geluCube  = 0.044715
)

// forward computes out = residual + in·weightᵀ + bias for each row; residual is nil for none.
func (l linear) forward(c cores, out, in, residual []float32) {
	rows := len(in) / l.in
	for r := range rows {
		row := out[r*l.out : (r+1)*l.out]
		copy(row, l.bias)
		if residual != nil {
			addTo(row, residual[r*l.out:(r+1)*l.out])
		}
	}
	c.matmul(mat(out, l.out), mat(in, l.in), mat(l.weight, l.in).t(), rows, l.out, l.in, true)
}

// backward computes dIn = dOut·weight and adds the gradients of weight and bias to grad.
func (l linear) backward(c cores, grad linear, dIn, dOut, in []float32) {
	rows := len(in) / l.in
	c.matmul(mat(dIn, l.in), mat(dOut, l.out), mat(l.weight, l.in), rows, l.in, l.out, false)
	c.matmul(mat(grad.weight, l.in), mat(dOut, l.out).t(), mat(in, l.in), l.out, l.in, rows, true)
	addColumnSums(grad.bias, dOut)
}

// normed keeps what the backward pass needs of a layer norm: its output, and each row's
// 1/deviation.
type normed struct {
	out     []float32 // (rows, width)
	scaled  []float32 // (rows, width): the output before gain and bias
	inverse []float32 // (rows)
}

func newNormed(rows, width int) normed {
	return normed{make([]float32, rows*width), make([]float32, rows*width), make([]float32, rows)}
}

// forward normalizes each row of in.
func (n norm) forward(c cores, a normed, in []float32) {
	d := len(n.gain)
	c.split(len(in)/d, func(begin, end int) {
		for r := begin; r < end; r++ {
			a.inverse[r] = n.forwardRow(a.out[r*d:(r+1)*d], a.scaled[r*d:(r+1)*d], in[r*d:(r+1)*d])
		}
	})
}

func (n norm) forwardRow(out, scaled, in []float32) (inverse float32) {
	sum := float32(0)
	for _, v := range in {
		sum += v
	}
	mean := sum / float32(len(in))
	squares := float32(0)
	for _, v := range in {
		squares += (v - mean) * (v - mean)
	}
	inverse = float32(1 / math.Sqrt(float64(squares)/float64(len(in))+normEpsilon))
	for i, v := range in {
		scaled[i] = (v - mean) * inverse
		out[i] = scaled[i]*n.gain[i] + n.bias[i]
	}
	return inverse
}

// backward adds the gradient with respect to the input to dIn, since the residual stream around the
// norm has one already, and the gradients of gain and bias to grad.
func (n norm) backward(c cores, grad norm, dIn, dOut []float32, a normed) {
	d := len(n.gain)
	c.split(len(dOut)/d, func(begin, end int) {
		for r := begin; r < end; r++ {
			n.backwardRow(dIn[r*d:(r+1)*d], dOut[r*d:(r+1)*d], a.scaled[r*d:(r+1)*d], a.inverse[r])
		}
	})
	for r := range len(dOut) / d {
		scaled, row := a.scaled[r*d:(r+1)*d], dOut[r*d:(r+1)*d]
		for i, g := range row {
			grad.gain[i] += g * scaled[i]
		}
		addTo(grad.bias, row)
	}
}

func (n norm) backwardRow(dIn, dOut, scaled []float32, inverse float32) {
	sum, dot := float32(0), float32(0)
	for i, g := range dOut {
		v := g * n.gain[i]
		sum += v
		dot += v * scaled[i]
	}
	sum /= float32(len(dOut))
	dot /= float32(len(dOut))
	for i, g := range dOut {
		dIn[i] += (g*n.gain[i] - sum - scaled[i]*dot) * inverse
	}
}

// geluForward computes out = in · gate, gate = logistic(geluScale (in + geluCube in³)), and keeps
// the gate.
func geluForward(c cores, out, gate, in []float32) {
	c.split(len(in), func(begin, end int) {
		for i := begin; i < end; i++ {
			x := in[i]
			g := 1 / (1 + exp(-geluScale*(x+geluCube*x*x*x)))
			gate[i], out[i] = g, x*g
		}
	})
}

// geluBackward multiplies grad, the gradient of the output, by the derivative: it becomes that of
// the input.
func geluBackward(c cores, grad, gate, in []float32) {
	c.split(len(in), func(begin, end int) {
		for i := begin; i < end; i++ {
			x, g := in[i], gate[i]
			grad[i] *= g + x*g*(1-g)*geluScale*(1+3*geluCube*x*x)
		}
	})
}

func exp(x float32) float32 { return float32(math.Exp(float64(x))) }

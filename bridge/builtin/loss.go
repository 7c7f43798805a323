package builtin

import "math"

// softmaxLoss turns each row of logits (rows, vocab) into probabilities and returns the mean
// cross-entropy of the targets, in nats. The sum is taken in float64 in row order.
func softmaxLoss(c cores, logits []float32, targets []byte) float64 {
	vocab := len(logits) / len(targets)
	losses := make([]float64, len(targets))
	c.split(len(targets), func(begin, end int) {
		for r := begin; r < end; r++ {
			losses[r] = softmaxLossRow(logits[r*vocab:(r+1)*vocab], targets[r])
		}
	})
	sum := 0.0
	for _, l := range losses {
		sum += l
	}
	return sum / float64(len(targets))
}

func softmaxLossRow(row []float32, target byte) float64 {
	top := row[0]
	for _, v := range row {
		top = max(top, v)
	}
	hit, sum := float64(row[target]-top), 0.0
	for i, v := range row {
		e := math.Exp(float64(v - top))
		row[i] = float32(e)
		sum += e
	}
	inverse := float32(1 / sum)
	for i := range row {
		row[i] *= inverse
	}
	return math.Log(sum) - hit
}

// softmaxLossBackward turns the probabilities into the gradient of the logits.
func softmaxLossBackward(c cores, probs []float32, targets []byte) {
	vocab, share := len(probs)/len(targets), 1/float32(len(targets))
	c.split(len(targets), func(begin, end int) {
		for r := begin; r < end; r++ {
			row := probs[r*vocab : (r+1)*vocab]
			row[targets[r]]--
			for i := range row {
				row[i] *= share
			}
		}
	})
}

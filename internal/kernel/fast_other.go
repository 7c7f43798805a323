//go:build !amd64 || purego

package kernel

// There is no fast path in this build: the plain loops take everything.

func hasFast() bool { return false }

func subFast(_, _, _ []float32) int                                   { return 0 }
func mulFast(_, _, _ []float32) int                                   { return 0 }
func mixFast(_, _, _ []float32, _, _ float32) int                     { return 0 }
func boundedFast(_ []float32) int                                     { return 0 }
func normSqFast(_ *[8]float64, _ []float32) int                       { return 0 }
func sgdFast(_, _ []float32, _ float32) int                           { return 0 }
func momentumFast(_, _, _ []float32, _, _ float32) int                { return 0 }
func nesterovFast(_, _, _ []float32, _, _ float32) int                { return 0 }
func delayedFast(_, _, _ []float32, _ float32) int                    { return 0 }
func delayedMomentumFast(_, _, _, _ []float32, _, _, _ float32) int   { return 0 }
func adamFast(_, _, _, _ []float32, _ *Adam) int                      { return 0 }
func meanFast(_ []float32, _ [][]float32, _ []float32, _ float32) int { return 0 }
func trimFast(_ []float32, _ [][]float32, _ []float32, _ int) int     { return 0 }

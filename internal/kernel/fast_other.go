//go:build !amd64 || purego

package kernel

// There is no assembly in this build: the plain loops take everything, and these get empty slices.

func hasFast() bool { return false }

// Of kernels of one form that take many elements at a time, one function stands for all.
var (
	subAVX2, addAVX2                                 = noSum, noSum
	mixAVX2, momentumAVX2, nesterovAVX2, delayedAVX2 = noStep, noStep, noStep, noStep
	meanAVX2, trim1AVX2, trim2AVX2, trim3AVX2        = noMean, noMean, noMean, noMean
)

func noSum(_, _, _ []float32)                                   {}
func noStep(_, _, _ []float32, _, _ float32)                    {}
func noMean(_ []float32, _ [][]float32, _ []float32, _ float32) {}

func boundedAVX2(_ []float32) int                                              { return 0 }
func normSqAVX2(_ *[8]float64, _ []float32)                                    {}
func dotAVX2(_ *[8]float64, _, _ []float32)                                    {}
func sgdAVX2(_, _ []float32, _ float32)                                        {}
func delayedMomentumAVX2(_, _, _, _ []float32, _, _, _, _, _ float32)          {}
func adamAVX2(_, _, _, _ []float32, _ *Adam)                                   {}
func trimAVX2(_ []float32, _ [][]float32, _ []float32, _ float32, _ []float32) {}
func absMaxAVX2(_ []float32) uint32                                            { return 0 }
func toInt8AVX2(_ []byte, _ []float32, _ float32)                              {}
func fromInt8AVX2(_ []float32, _ []byte, _ float32) uint32                     { return 0 }
func toInt4AVX2(_ []byte, _ []float32, _ float32)                              {}
func fromInt4AVX2(_ []float32, _ []byte, _ float32) uint32                     { return 0 }
func absSumAVX2(_ *[8]float64, _ []float32)                                    {}
func packSignsAVX2(_ []byte, _ []float32)                                      {}
func unpackSignsAVX2(_ []float32, _ []byte, _ float32)                         {}
func encodeBF16AVX2(_ []byte, _ []float32)                                     {}
func decodeBF16AVX2(_ []float32, _ []byte)                                     {}
func maximaAVX2(_ []uint32, _ []float32, _ int) uint32                         { return 0 }
func reachingAVX2(_ []uint32, _ uint32) int                                    { return 0 }
func collectAVX2(_ []uint16, _ []float32, _ uint32) int                        { return 0 }

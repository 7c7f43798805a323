//go:build !amd64 || purego

package kernel

// There is no fast path in this build: the plain loops take everything.

func hasFast() bool { return false }

func subFast(_, _, _ []float32) int                                       { return 0 }
func mulFast(_, _, _ []float32) int                                       { return 0 }
func mixFast(_, _, _ []float32, _, _ float32) int                         { return 0 }
func boundedFast(_ []float32) int                                         { return 0 }
func normSqFast(_ *[8]float64, _ []float32) int                           { return 0 }
func dotFast(_ *[8]float64, _, _ []float32) int                           { return 0 }
func sgdFast(_, _ []float32, _ float32) int                               { return 0 }
func momentumFast(_, _, _ []float32, _, _ float32) int                    { return 0 }
func nesterovFast(_, _, _ []float32, _, _ float32) int                    { return 0 }
func delayedFast(_, _, _ []float32, _, _ float32) int                     { return 0 }
func delayedMomentumFast(_, _, _, _ []float32, _, _, _, _, _ float32) int { return 0 }
func adamFast(_, _, _, _ []float32, _ *Adam) int                          { return 0 }
func meanFast(_ []float32, _ [][]float32, _ []float32, _ float32) int     { return 0 }
func trimFast(_ []float32, _ [][]float32, _ []float32, _ int) int         { return 0 }
func addFast(_, _, _ []float32) int                                       { return 0 }
func absMaxFast(_ []float32) (n int, most uint32)                         { return 0, 0 }
func toInt8Fast(_ []byte, _ []float32, _ float32) int                     { return 0 }
func fromInt8Fast(_ []float32, _ []byte, _ float32) (n int, most int32)   { return 0, 0 }
func toInt4Fast(_ []byte, _ []float32, _ float32) int                     { return 0 }
func fromInt4Fast(_ []float32, _ []byte, _ float32) (n int, most int32)   { return 0, 0 }
func absSumFast(_ *[8]float64, _ []float32) int                           { return 0 }
func packSignsFast(_ []byte, _ []float32) int                             { return 0 }
func unpackSignsFast(_ []float32, _ []byte, _ float32) int                { return 0 }
func encodeBF16Fast(_ []byte, _ []float32) int                            { return 0 }
func decodeBF16Fast(_ []float32, _ []byte) int                            { return 0 }
func maximaFast(_ []uint32, _ []float32, _ int) (taken int, most uint32)  { return 0, 0 }
func reachingFast(_ []uint32, _ uint32) (taken, reaching int)             { return 0, 0 }
func collectFast(_ []uint16, _ []float32, _ uint32) (taken, reaching int) { return 0, 0 }

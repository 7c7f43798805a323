//go:build !purego

#include "textflag.h"

// The reductions take some coordinates at a time through all columns, with what they keep of them in registers. AX counts coordinates up to
// CX; BX is at the column's slice header, 24 bytes each, DX at its scale, and SI is where its values are.

// COLUMN goes to the next column: its values to SI, its scale to Y15. From a dozen columns on, processors no longer see by themselves
// that each is read in order: what is 768 bytes ahead is fetched early, two cache lines, which may lie beyond the column.
#define COLUMN \
	MOVQ         (BX), SI          \
	PREFETCHT0   768(SI)(AX*4)     \
	PREFETCHT0   832(SI)(AX*4)     \
	VBROADCASTSS (DX), Y15         \
	ADDQ         $24, BX           \
	ADDQ         $4, DX

#define SCALED(off, x) VMULPS off(SI)(AX*4), Y15, x

#define ADDSCALED(off, sum) \
	SCALED(off, Y12)      \
	VADDPS Y12, sum, sum

#define QUOTIENT(off, sum) \
	VDIVPS  Y15, sum, sum     \
	VMOVUPS sum, off(DI)(AX*4)

// func meanAVX2(dst []float32, cols [][]float32, scale []float32, kept float32)
TEXT ·meanAVX2(SB), NOSPLIT, $0-76
	MOVQ dst_base+0(FP), DI
	MOVQ dst_len+8(FP), CX
	MOVQ cols_base+24(FP), R10
	MOVQ cols_len+32(FP), R11
	MOVQ scale_base+48(FP), R12
	XORQ AX, AX
	JMP  check

pass:
	MOVQ   R10, BX
	MOVQ   R12, DX
	MOVQ   R11, R8
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3

column:
	COLUMN
	ADDSCALED(0, Y0)
	ADDSCALED(32, Y1)
	ADDSCALED(64, Y2)
	ADDSCALED(96, Y3)
	DECQ R8
	JNE  column

	VBROADCASTSS kept+72(FP), Y15
	QUOTIENT(0, Y0)
	QUOTIENT(32, Y1)
	QUOTIENT(64, Y2)
	QUOTIENT(96, Y3)
	ADDQ         $32, AX

check:
	CMPQ AX, CX
	JLT  pass
	VZEROUPPER
	RET

// Trimmed means. The k low lanes hold the lowest values so far and the k high ones the highest, in any order. A value joins the low ones, where
// the highest is pushed out, and that joins the high ones, where the lowest is pushed out, and that goes to the sum.
//
// VMINPS and VMAXPS give the operand that stands first here when one is NaN or both are zeros. A zero's sign makes no difference to the sum. A
// value that is NaN stands first, therefore it runs through all lanes into the sum. One among the first 2k values has none to run through:
// it makes the sum start as NaN and not as 0, for which VCMPPS $3 gives the bits.

#define LOW(x, lane, out) \
	VMAXPS x, lane, out  \
	VMINPS x, lane, lane

#define HIGH(x, lane, out) \
	VMINPS x, lane, out  \
	VMAXPS x, lane, lane

#define START1(lo, hi, sum) \
	VCMPPS  $3, hi, lo, sum \
	LOW(hi, lo, Y13)        \
	VMOVAPS Y13, hi

#define TRIM1(off, lo, hi, sum) \
	SCALED(off, Y12)     \
	LOW(Y12, lo, Y13)    \
	HIGH(Y13, hi, Y12)   \
	VADDPS Y12, sum, sum

// func trim1AVX2(dst []float32, cols [][]float32, scale []float32, kept float32)
TEXT ·trim1AVX2(SB), NOSPLIT, $0-76
	MOVQ dst_base+0(FP), DI
	MOVQ dst_len+8(FP), CX
	MOVQ cols_base+24(FP), R10
	MOVQ cols_len+32(FP), R11
	MOVQ scale_base+48(FP), R12
	SUBQ $2, R11
	XORQ AX, AX
	JMP  check

pass:
	MOVQ R10, BX
	MOVQ R12, DX
	MOVQ R11, R8
	COLUMN
	SCALED(0, Y0)
	SCALED(32, Y1)
	SCALED(64, Y2)
	SCALED(96, Y3)
	COLUMN
	SCALED(0, Y4)
	SCALED(32, Y5)
	SCALED(64, Y6)
	SCALED(96, Y7)
	START1(Y0, Y4, Y8)
	START1(Y1, Y5, Y9)
	START1(Y2, Y6, Y10)
	START1(Y3, Y7, Y11)

column:
	COLUMN
	TRIM1(0, Y0, Y4, Y8)
	TRIM1(32, Y1, Y5, Y9)
	TRIM1(64, Y2, Y6, Y10)
	TRIM1(96, Y3, Y7, Y11)
	DECQ R8
	JNE  column

	VBROADCASTSS kept+72(FP), Y15
	QUOTIENT(0, Y8)
	QUOTIENT(32, Y9)
	QUOTIENT(64, Y10)
	QUOTIENT(96, Y11)
	ADDQ         $32, AX

check:
	CMPQ AX, CX
	JLT  pass
	VZEROUPPER
	RET

#define START2(a, b, c, d, sum) \
	VCMPPS $3, b, a, sum     \
	VCMPPS $3, d, c, Y13     \
	VORPS  Y13, sum, sum     \
	LOW(c, a, Y13)           \
	LOW(Y13, b, c)           \
	LOW(d, a, Y13)           \
	LOW(Y13, b, d)

#define TRIM2(off, a, b, c, d, sum) \
	SCALED(off, Y12)     \
	LOW(Y12, a, Y13)     \
	LOW(Y13, b, Y12)     \
	HIGH(Y12, c, Y13)    \
	HIGH(Y13, d, Y12)    \
	VADDPS Y12, sum, sum

// func trim2AVX2(dst []float32, cols [][]float32, scale []float32, kept float32)
TEXT ·trim2AVX2(SB), NOSPLIT, $0-76
	MOVQ dst_base+0(FP), DI
	MOVQ dst_len+8(FP), CX
	MOVQ cols_base+24(FP), R10
	MOVQ cols_len+32(FP), R11
	MOVQ scale_base+48(FP), R12
	SUBQ $4, R11
	XORQ AX, AX
	JMP  check

pass:
	MOVQ R10, BX
	MOVQ R12, DX
	MOVQ R11, R8
	COLUMN
	SCALED(0, Y0)
	SCALED(32, Y4)
	COLUMN
	SCALED(0, Y1)
	SCALED(32, Y5)
	COLUMN
	SCALED(0, Y2)
	SCALED(32, Y6)
	COLUMN
	SCALED(0, Y3)
	SCALED(32, Y7)
	START2(Y0, Y1, Y2, Y3, Y8)
	START2(Y4, Y5, Y6, Y7, Y9)

column:
	COLUMN
	TRIM2(0, Y0, Y1, Y2, Y3, Y8)
	TRIM2(32, Y4, Y5, Y6, Y7, Y9)
	DECQ R8
	JNE  column

	VBROADCASTSS kept+72(FP), Y15
	QUOTIENT(0, Y8)
	QUOTIENT(32, Y9)
	ADDQ         $16, AX

check:
	CMPQ AX, CX
	JLT  pass
	VZEROUPPER
	RET

// The lanes of k=3 leave no register for the scale: it is fetched for each register of values.
#define SCALED3(off, x) \
	VBROADCASTSS -4(DX), x           \
	VMULPS       off(SI)(AX*4), x, x

#define COLUMN3 \
	MOVQ       (BX), SI      \
	PREFETCHT0 768(SI)(AX*4) \
	ADDQ       $24, BX       \
	ADDQ       $4, DX

#define START3(a, b, c, d, e, f, sum) \
	VCMPPS  $3, b, a, sum   \
	VCMPPS  $3, d, c, Y15   \
	VORPS   Y15, sum, sum   \
	VCMPPS  $3, f, e, Y15   \
	VORPS   Y15, sum, sum   \
	LOW(d, a, Y14)          \
	LOW(Y14, b, Y15)        \
	LOW(Y15, c, d)          \
	LOW(e, a, Y14)          \
	LOW(Y14, b, Y15)        \
	LOW(Y15, c, e)          \
	LOW(f, a, Y14)          \
	LOW(Y14, b, Y15)        \
	LOW(Y15, c, f)

#define TRIM3(off, a, b, c, d, e, f, sum) \
	SCALED3(off, Y14)    \
	LOW(Y14, a, Y15)     \
	LOW(Y15, b, Y14)     \
	LOW(Y14, c, Y15)     \
	HIGH(Y15, d, Y14)    \
	HIGH(Y14, e, Y15)    \
	HIGH(Y15, f, Y14)    \
	VADDPS Y14, sum, sum

// func trim3AVX2(dst []float32, cols [][]float32, scale []float32, kept float32)
TEXT ·trim3AVX2(SB), NOSPLIT, $0-76
	MOVQ dst_base+0(FP), DI
	MOVQ dst_len+8(FP), CX
	MOVQ cols_base+24(FP), R10
	MOVQ cols_len+32(FP), R11
	MOVQ scale_base+48(FP), R12
	SUBQ $6, R11
	XORQ AX, AX
	JMP  check

pass:
	MOVQ R10, BX
	MOVQ R12, DX
	MOVQ R11, R8
	COLUMN3
	SCALED3(0, Y0)
	SCALED3(32, Y6)
	COLUMN3
	SCALED3(0, Y1)
	SCALED3(32, Y7)
	COLUMN3
	SCALED3(0, Y2)
	SCALED3(32, Y8)
	COLUMN3
	SCALED3(0, Y3)
	SCALED3(32, Y9)
	COLUMN3
	SCALED3(0, Y4)
	SCALED3(32, Y10)
	COLUMN3
	SCALED3(0, Y5)
	SCALED3(32, Y11)
	START3(Y0, Y1, Y2, Y3, Y4, Y5, Y12)
	START3(Y6, Y7, Y8, Y9, Y10, Y11, Y13)

column:
	COLUMN3
	TRIM3(0, Y0, Y1, Y2, Y3, Y4, Y5, Y12)
	TRIM3(32, Y6, Y7, Y8, Y9, Y10, Y11, Y13)
	DECQ R8
	JNE  column

	VBROADCASTSS kept+72(FP), Y15
	QUOTIENT(0, Y12)
	QUOTIENT(32, Y13)
	ADDQ         $16, AX

check:
	CMPQ AX, CX
	JLT  pass
	VZEROUPPER
	RET

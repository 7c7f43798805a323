//go:build !purego

#include "textflag.h"

// The trimmed mean for any k; reduce_amd64.s says how it works. The lanes are in memory, 64 bytes each: the low ones from R13 to R8, the high ones
// from there to R11. AX counts coordinates up to CX, 16 at a time: Y0 and Y1 are the values under way, Y8 and Y9 the sums.

// func trimAVX2(dst []float32, cols [][]float32, scale []float32, kept float32, lanes []float32)
TEXT ·trimAVX2(SB), NOSPLIT, $8-104
	MOVQ dst_base+0(FP), DI
	MOVQ dst_len+8(FP), CX
	MOVQ cols_base+24(FP), R10
	MOVQ scale_base+48(FP), R12
	MOVQ lanes_base+80(FP), R13
	MOVQ lanes_len+88(FP), AX
	LEAQ (R13)(AX*2), R8        // half of so many elements of 4 bytes
	LEAQ (R13)(AX*4), R11
	MOVQ cols_len+32(FP), AX
	LEAQ (AX)(AX*2), AX
	LEAQ (R10)(AX*8), AX
	MOVQ AX, end-8(SP)          // of the slice headers
	XORQ AX, AX
	JMP  check

pass:
	MOVQ   R10, BX
	MOVQ   R12, DX
	MOVQ   R13, R9
	VXORPS Y8, Y8, Y8
	VXORPS Y9, Y9, Y9

	// The first 2k values fill the lanes.
fill:
	MOVQ         (BX), SI
	PREFETCHT0   768(SI)(AX*4)
	VBROADCASTSS (DX), Y15
	ADDQ         $24, BX
	ADDQ         $4, DX
	VMULPS       (SI)(AX*4), Y15, Y0
	VMULPS       32(SI)(AX*4), Y15, Y1
	VMOVUPS      Y0, (R9)
	VMOVUPS      Y1, 32(R9)
	VCMPPS       $3, Y0, Y0, Y2
	VCMPPS       $3, Y1, Y1, Y3
	VORPS        Y2, Y8, Y8
	VORPS        Y3, Y9, Y9
	ADDQ         $64, R9
	CMPQ         R9, R11
	JLT          fill

	// Each of the high lanes gives its value to the low ones, and takes what is pushed out.
	MOVQ R8, R9

split:
	VMOVUPS (R9), Y0
	VMOVUPS 32(R9), Y1
	MOVQ    R13, SI

splitlow:
	VMOVUPS (SI), Y4
	VMOVUPS 32(SI), Y5
	VMINPS  Y0, Y4, Y2
	VMINPS  Y1, Y5, Y3
	VMAXPS  Y0, Y4, Y0
	VMAXPS  Y1, Y5, Y1
	VMOVUPS Y2, (SI)
	VMOVUPS Y3, 32(SI)
	ADDQ    $64, SI
	CMPQ    SI, R8
	JLT     splitlow
	VMOVUPS Y0, (R9)
	VMOVUPS Y1, 32(R9)
	ADDQ    $64, R9
	CMPQ    R9, R11
	JLT     split

column:
	MOVQ         (BX), SI
	PREFETCHT0   768(SI)(AX*4)
	VBROADCASTSS (DX), Y15
	ADDQ         $24, BX
	ADDQ         $4, DX
	VMULPS       (SI)(AX*4), Y15, Y0
	VMULPS       32(SI)(AX*4), Y15, Y1
	MOVQ         R13, R9

low:
	VMOVUPS (R9), Y4
	VMOVUPS 32(R9), Y5
	VMINPS  Y0, Y4, Y2
	VMINPS  Y1, Y5, Y3
	VMAXPS  Y0, Y4, Y0
	VMAXPS  Y1, Y5, Y1
	VMOVUPS Y2, (R9)
	VMOVUPS Y3, 32(R9)
	ADDQ    $64, R9
	CMPQ    R9, R8
	JLT     low

high:
	VMOVUPS (R9), Y4
	VMOVUPS 32(R9), Y5
	VMAXPS  Y0, Y4, Y2
	VMAXPS  Y1, Y5, Y3
	VMINPS  Y0, Y4, Y0
	VMINPS  Y1, Y5, Y1
	VMOVUPS Y2, (R9)
	VMOVUPS Y3, 32(R9)
	ADDQ    $64, R9
	CMPQ    R9, R11
	JLT     high

	VADDPS Y0, Y8, Y8
	VADDPS Y1, Y9, Y9
	CMPQ   BX, end-8(SP)
	JLT    column

	VBROADCASTSS kept+72(FP), Y15
	VDIVPS       Y15, Y8, Y8
	VDIVPS       Y15, Y9, Y9
	VMOVUPS      Y8, (DI)(AX*4)
	VMOVUPS      Y9, 32(DI)(AX*4)
	ADDQ         $16, AX

check:
	CMPQ AX, CX
	JLT  pass
	VZEROUPPER
	RET

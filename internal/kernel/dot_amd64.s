//go:build !purego

#include "textflag.h"

// func dotAVX2(lanes *[8]float64, x, y []float32)
TEXT ·dotAVX2(SB), NOSPLIT, $0-56
	MOVQ    lanes+0(FP), DI
	MOVQ    x_base+8(FP), SI
	MOVQ    x_len+16(FP), CX
	MOVQ    y_base+32(FP), DX
	VMOVUPD (DI), Y14
	VMOVUPD 32(DI), Y15
	XORQ    AX, AX
	JMP     check

loop:
	VCVTPS2PD (SI)(AX*4), Y0
	VCVTPS2PD 16(SI)(AX*4), Y1
	VCVTPS2PD 32(SI)(AX*4), Y2
	VCVTPS2PD 48(SI)(AX*4), Y3
	VCVTPS2PD (DX)(AX*4), Y4
	VCVTPS2PD 16(DX)(AX*4), Y5
	VCVTPS2PD 32(DX)(AX*4), Y6
	VCVTPS2PD 48(DX)(AX*4), Y7
	VMULPD    Y4, Y0, Y0
	VMULPD    Y5, Y1, Y1
	VMULPD    Y6, Y2, Y2
	VMULPD    Y7, Y3, Y3
	VADDPD    Y0, Y14, Y14
	VADDPD    Y1, Y15, Y15
	VADDPD    Y2, Y14, Y14
	VADDPD    Y3, Y15, Y15
	ADDQ      $16, AX

check:
	CMPQ    AX, CX
	JLT     loop
	VMOVUPD Y14, (DI)
	VMOVUPD Y15, 32(DI)
	VZEROUPPER
	RET

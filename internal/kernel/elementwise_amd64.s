//go:build !purego

#include "textflag.h"

// A stride is 16 elements, two registers. AX counts elements; CX is where it ends. The last register named is written; in a
// subtraction, the one before it is what is subtracted from.

// func subAVX2(dst, a, b []float32)
TEXT ·subAVX2(SB), NOSPLIT, $0-72
	MOVQ dst_base+0(FP), DI
	MOVQ dst_len+8(FP), CX
	MOVQ a_base+24(FP), SI
	MOVQ b_base+48(FP), DX
	XORQ AX, AX
	JMP  check

loop:
	VMOVUPS (SI)(AX*4), Y0
	VMOVUPS 32(SI)(AX*4), Y1
	VSUBPS  (DX)(AX*4), Y0, Y0
	VSUBPS  32(DX)(AX*4), Y1, Y1
	VMOVUPS Y0, (DI)(AX*4)
	VMOVUPS Y1, 32(DI)(AX*4)
	ADDQ    $16, AX

check:
	CMPQ AX, CX
	JLT  loop
	VZEROUPPER
	RET

// func addAVX2(dst, a, b []float32)
TEXT ·addAVX2(SB), NOSPLIT, $0-72
	MOVQ dst_base+0(FP), DI
	MOVQ dst_len+8(FP), CX
	MOVQ a_base+24(FP), SI
	MOVQ b_base+48(FP), DX
	XORQ AX, AX
	JMP  check

loop:
	VMOVUPS (SI)(AX*4), Y0
	VMOVUPS 32(SI)(AX*4), Y1
	VADDPS  (DX)(AX*4), Y0, Y0
	VADDPS  32(DX)(AX*4), Y1, Y1
	VMOVUPS Y0, (DI)(AX*4)
	VMOVUPS Y1, 32(DI)(AX*4)
	ADDQ    $16, AX

check:
	CMPQ AX, CX
	JLT  loop
	VZEROUPPER
	RET

// func mixAVX2(dst, a, b []float32, alpha, rest float32)
TEXT ·mixAVX2(SB), NOSPLIT, $0-80
	MOVQ         dst_base+0(FP), DI
	MOVQ         dst_len+8(FP), CX
	MOVQ         a_base+24(FP), SI
	MOVQ         b_base+48(FP), DX
	VBROADCASTSS alpha+72(FP), Y14
	VBROADCASTSS rest+76(FP), Y15
	XORQ         AX, AX
	JMP          check

loop:
	VMULPS  (SI)(AX*4), Y14, Y0
	VMULPS  32(SI)(AX*4), Y14, Y1
	VMULPS  (DX)(AX*4), Y15, Y2
	VMULPS  32(DX)(AX*4), Y15, Y3
	VADDPS  Y2, Y0, Y0
	VADDPS  Y3, Y1, Y1
	VMOVUPS Y0, (DI)(AX*4)
	VMOVUPS Y1, 32(DI)(AX*4)
	ADDQ    $16, AX

check:
	CMPQ AX, CX
	JLT  loop
	VZEROUPPER
	RET

// exponentBits and limitCarry of elementwise.go.
DATA exponents<>+0(SB)/4, $0x7f800000
GLOBL exponents<>(SB), RODATA|NOPTR, $4
DATA carries<>+0(SB)/4, $0x0e800000
GLOBL carries<>(SB), RODATA|NOPTR, $4

// func boundedAVX2(x []float32) int
TEXT ·boundedAVX2(SB), NOSPLIT, $0-32
	MOVQ         x_base+0(FP), SI
	MOVQ         x_len+8(FP), CX
	VPBROADCASTD exponents<>(SB), Y14
	VPBROADCASTD carries<>(SB), Y15
	XORQ         AX, AX
	JMP          check

loop:
	VPAND     (SI)(AX*4), Y14, Y0
	VPAND     32(SI)(AX*4), Y14, Y1
	VPADDD    Y15, Y0, Y0
	VPADDD    Y15, Y1, Y1
	VPOR      Y0, Y1, Y0
	VMOVMSKPS Y0, BX
	TESTL     BX, BX
	JNE       out
	ADDQ      $16, AX

check:
	CMPQ AX, CX
	JLT  loop

out:
	MOVQ AX, ret+24(FP)
	VZEROUPPER
	RET

// func normSqAVX2(lanes *[8]float64, x []float32)
TEXT ·normSqAVX2(SB), NOSPLIT, $0-32
	MOVQ    lanes+0(FP), DI
	MOVQ    x_base+8(FP), SI
	MOVQ    x_len+16(FP), CX
	VMOVUPD (DI), Y14
	VMOVUPD 32(DI), Y15
	XORQ    AX, AX
	JMP     check

loop:
	VCVTPS2PD (SI)(AX*4), Y0
	VCVTPS2PD 16(SI)(AX*4), Y1
	VCVTPS2PD 32(SI)(AX*4), Y2
	VCVTPS2PD 48(SI)(AX*4), Y3
	VMULPD    Y0, Y0, Y0
	VMULPD    Y1, Y1, Y1
	VMULPD    Y2, Y2, Y2
	VMULPD    Y3, Y3, Y3
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

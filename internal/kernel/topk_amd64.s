//go:build !purego

#include "textflag.h"

// The selection of topk. AX counts elements up to CX.

DATA magnitude<>+0(SB)/4, $0x7fffffff // of a float32
GLOBL magnitude<>(SB), RODATA|NOPTR, $4

// func maximaAVX2(sizes []uint32, x []float32, each int) uint32
TEXT ·maximaAVX2(SB), NOSPLIT, $0-60
	MOVQ         sizes_base+0(FP), DI
	MOVQ         x_base+24(FP), SI
	MOVQ         x_len+32(FP), CX
	MOVQ         each+48(FP), DX
	VPBROADCASTD magnitude<>(SB), Y15
	LEAQ         (SI)(CX*4), CX
	VPXOR        Y2, Y2, Y2
	JMP          check

strip:
	VPXOR Y0, Y0, Y0
	MOVQ  DX, BX

loop:
	VPAND   (SI), Y15, Y1
	VPMAXUD Y1, Y0, Y0
	ADDQ    $32, SI
	DECQ    BX
	JNZ     loop
	VPMAXUD Y0, Y2, Y2
	VMOVDQU Y0, (DI)
	ADDQ    $32, DI

check:
	CMPQ         SI, CX
	JLT          strip
	VEXTRACTI128 $1, Y2, X0
	VPMAXUD      X0, X2, X2
	VPSHUFD      $0x4e, X2, X0
	VPMAXUD      X0, X2, X2
	VPSHUFD      $0xb1, X2, X0
	VPMAXUD      X0, X2, X2
	VMOVD        X2, BX
	MOVL         BX, ret+56(FP)
	VZEROUPPER
	RET

// func reachingAVX2(sizes []uint32, bound uint32) int
TEXT ·reachingAVX2(SB), NOSPLIT, $0-40
	MOVQ         sizes_base+0(FP), SI
	MOVQ         sizes_len+8(FP), CX
	MOVL         bound+24(FP), BX
	DECL         BX
	VMOVD        BX, X15
	VPBROADCASTD X15, Y15
	VPXOR        Y0, Y0, Y0
	VPXOR        Y1, Y1, Y1
	XORQ         AX, AX
	JMP          check

loop:
	VMOVDQU  (SI)(AX*4), Y2
	VMOVDQU  32(SI)(AX*4), Y3
	VPCMPGTD Y15, Y2, Y2
	VPCMPGTD Y15, Y3, Y3
	VPSUBD   Y2, Y0, Y0
	VPSUBD   Y3, Y1, Y1
	ADDQ     $16, AX

check:
	CMPQ         AX, CX
	JLT          loop
	VPADDD       Y1, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPADDD       X1, X0, X0
	VPSHUFD      $0x4e, X0, X1
	VPADDD       X1, X0, X0
	VPSHUFD      $0xb1, X0, X1
	VPADDD       X1, X0, X0
	VMOVD        X0, BX
	MOVQ         BX, ret+32(FP)
	VZEROUPPER
	RET

// ABOVE makes bits of eight elements, the lowest of R8 where off is 0.
#define ABOVE(off, shift) \
	VPAND     off(SI)(AX*4), Y14, Y0 \
	VPCMPGTD  Y15, Y0, Y0            \
	VMOVMSKPS Y0, BX                 \
	SHLQ      $shift, BX             \
	ORQ       BX, R8

// TAKE writes the position of the lowest bit of R8, and clears it. Without a bit it writes anything.
#define TAKE(to) \
	BSFQ R8, BX         \
	ADDQ AX, BX         \
	MOVW BX, to         \
	LEAQ -1(R8), BX     \
	ANDQ BX, R8

// func collectAVX2(at []uint16, x []float32, bound uint32) int
//
// Most strides have few bits. Four are taken without a look at how many there are, for a branch on
// that would be mispredicted.
TEXT ·collectAVX2(SB), NOSPLIT, $0-64
	MOVQ         at_base+0(FP), DI
	MOVQ         x_base+24(FP), SI
	MOVQ         x_len+32(FP), CX
	MOVL         bound+48(FP), BX
	DECL         BX
	VMOVD        BX, X15
	VPBROADCASTD X15, Y15
	VPBROADCASTD magnitude<>(SB), Y14
	XORQ         AX, AX
	JMP          check

loop:
	XORQ    R8, R8
	ABOVE(0, 0)
	ABOVE(32, 8)
	ABOVE(64, 16)
	ABOVE(96, 24)
	ABOVE(128, 32)
	ABOVE(160, 40)
	ABOVE(192, 48)
	ABOVE(224, 56)
	POPCNTQ R8, R9
	LEAQ    (DI)(R9*2), R9
	TAKE((DI))
	TAKE(2(DI))
	TAKE(4(DI))
	TAKE(6(DI))
	TESTQ   R8, R8
	JZ      next

more:
	ADDQ  $2, DI
	TAKE(6(DI))
	TESTQ R8, R8
	JNZ   more

next:
	MOVQ R9, DI
	ADDQ $64, AX

check:
	CMPQ AX, CX
	JLT  loop
	SUBQ at_base+0(FP), DI
	SHRQ $1, DI
	MOVQ DI, ret+56(FP)
	VZEROUPPER
	RET

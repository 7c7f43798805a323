//go:build !purego

#include "textflag.h"

// Quantisation, 32 elements at a time. AX counts elements up to CX.

DATA magnitude<>+0(SB)/4, $0x7fffffff // of a float32
GLOBL magnitude<>(SB), RODATA|NOPTR, $4
DATA toInteger<>+0(SB)/4, $0x4b400000 // toInteger of quant.go
GLOBL toInteger<>(SB), RODATA|NOPTR, $4
DATA fromInt4<>+0(SB)/4, $0x4b3ffff8 // its bits, less int4Zero
GLOBL fromInt4<>(SB), RODATA|NOPTR, $4
DATA pairs<>+0(SB)/2, $0x1001 // the second of two nibbles is worth 16
GLOBL pairs<>(SB), RODATA|NOPTR, $2
DATA nibble<>+0(SB)/1, $0x0f
GLOBL nibble<>(SB), RODATA|NOPTR, $1
DATA eight<>+0(SB)/1, $8
GLOBL eight<>(SB), RODATA|NOPTR, $1

// Packing four registers of integers to bytes leaves fours of them in this order.
DATA unpack<>+0(SB)/4, $0
DATA unpack<>+4(SB)/4, $4
DATA unpack<>+8(SB)/4, $1
DATA unpack<>+12(SB)/4, $5
DATA unpack<>+16(SB)/4, $2
DATA unpack<>+20(SB)/4, $6
DATA unpack<>+24(SB)/4, $3
DATA unpack<>+28(SB)/4, $7
GLOBL unpack<>(SB), RODATA|NOPTR, $32

// func absMaxAVX2(x []float32) uint32
TEXT ·absMaxAVX2(SB), NOSPLIT, $0-28
	MOVQ         x_base+0(FP), SI
	MOVQ         x_len+8(FP), CX
	VPBROADCASTD magnitude<>(SB), Y15
	VPXOR        Y0, Y0, Y0
	VPXOR        Y1, Y1, Y1
	XORQ         AX, AX
	JMP          check

loop:
	VPAND   (SI)(AX*4), Y15, Y2
	VPAND   32(SI)(AX*4), Y15, Y3
	VPAND   64(SI)(AX*4), Y15, Y4
	VPAND   96(SI)(AX*4), Y15, Y5
	VPMAXUD Y2, Y0, Y0
	VPMAXUD Y3, Y1, Y1
	VPMAXUD Y4, Y0, Y0
	VPMAXUD Y5, Y1, Y1
	ADDQ    $32, AX

check:
	CMPQ         AX, CX
	JLT          loop
	VPMAXUD      Y1, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPMAXUD      X1, X0, X0
	VPSHUFD      $0x4e, X0, X1
	VPMAXUD      X1, X0, X0
	VPSHUFD      $0xb1, X0, X1
	VPMAXUD      X1, X0, X0
	VMOVD        X0, BX
	MOVL         BX, ret+24(FP)
	VZEROUPPER
	RET

// INTEGER is nearest of quant.go: factor is in Y15, toInteger in Y14, the bits to take off in Y13.
#define INTEGER(off, x) \
	VMULPS off(SI)(AX*4), Y15, x \
	VADDPS Y14, x, x             \
	VPSUBD Y13, x, x

// BYTES makes one register of bytes of four of integers, Y0 to Y3, in Y0.
#define BYTES \
	INTEGER(0, Y0)        \
	INTEGER(32, Y1)       \
	INTEGER(64, Y2)       \
	INTEGER(96, Y3)       \
	VPACKSSDW Y1, Y0, Y0  \
	VPACKSSDW Y3, Y2, Y2  \
	VPACKSSWB Y2, Y0, Y0  \
	VPERMD    Y0, Y12, Y0

// func toInt8AVX2(q []byte, x []float32, factor float32)
TEXT ·toInt8AVX2(SB), NOSPLIT, $0-52
	MOVQ         q_base+0(FP), DI
	MOVQ         x_base+24(FP), SI
	MOVQ         x_len+32(FP), CX
	VBROADCASTSS factor+48(FP), Y15
	VBROADCASTSS toInteger<>(SB), Y14
	VMOVAPS      Y14, Y13
	VMOVDQU      unpack<>(SB), Y12
	XORQ         AX, AX
	JMP          check

loop:
	BYTES
	VMOVDQU Y0, (DI)(AX*1)
	ADDQ    $32, AX

check:
	CMPQ AX, CX
	JLT  loop
	VZEROUPPER
	RET

// func toInt4AVX2(q []byte, x []float32, factor float32)
TEXT ·toInt4AVX2(SB), NOSPLIT, $0-52
	MOVQ         q_base+0(FP), DI
	MOVQ         x_base+24(FP), SI
	MOVQ         x_len+32(FP), CX
	VBROADCASTSS factor+48(FP), Y15
	VBROADCASTSS toInteger<>(SB), Y14
	VBROADCASTSS fromInt4<>(SB), Y13
	VMOVDQU      unpack<>(SB), Y12
	VPBROADCASTW pairs<>(SB), Y11
	XORQ         AX, AX
	JMP          check

loop:
	BYTES
	VPMADDUBSW Y11, Y0, Y0
	VPACKUSWB  Y0, Y0, Y0
	VPERMQ     $0x08, Y0, Y0
	VMOVDQU    X0, (DI)
	ADDQ       $16, DI
	ADDQ       $32, AX

check:
	CMPQ AX, CX
	JLT  loop
	VZEROUPPER
	RET

// VALUES writes eight products of integers and the scale, which is in Y15.
#define VALUES(off, x) \
	VCVTDQ2PS x, x                 \
	VMULPS    Y15, x, x            \
	VMOVUPS   x, off(DI)(AX*4)

// MOST leaves in BX the largest byte of Y14.
#define MOST \
	VEXTRACTI128 $1, Y14, X0 \
	VPMAXUB X0, X14, X14     \
	VPSRLDQ $8, X14, X0      \
	VPMAXUB X0, X14, X14     \
	VPSRLDQ $4, X14, X0      \
	VPMAXUB X0, X14, X14     \
	VPSRLDQ $2, X14, X0      \
	VPMAXUB X0, X14, X14     \
	VPSRLDQ $1, X14, X0      \
	VPMAXUB X0, X14, X14     \
	VPEXTRB $0, X14, BX

// func fromInt8AVX2(x []float32, q []byte, scale float32) uint32
TEXT ·fromInt8AVX2(SB), NOSPLIT, $0-60
	MOVQ         x_base+0(FP), DI
	MOVQ         x_len+8(FP), CX
	MOVQ         q_base+24(FP), SI
	VBROADCASTSS scale+48(FP), Y15
	VPXOR        Y14, Y14, Y14
	XORQ         AX, AX
	JMP          check

loop:
	VPABSB    (SI)(AX*1), Y0
	VPMAXUB   Y0, Y14, Y14
	VPMOVSXBD (SI)(AX*1), Y0
	VPMOVSXBD 8(SI)(AX*1), Y1
	VPMOVSXBD 16(SI)(AX*1), Y2
	VPMOVSXBD 24(SI)(AX*1), Y3
	VALUES(0, Y0)
	VALUES(32, Y1)
	VALUES(64, Y2)
	VALUES(96, Y3)
	ADDQ      $32, AX

check:
	CMPQ AX, CX
	JLT  loop
	MOST
	MOVL BX, ret+56(FP)
	VZEROUPPER
	RET

// func fromInt4AVX2(x []float32, q []byte, scale float32) uint32
TEXT ·fromInt4AVX2(SB), NOSPLIT, $0-60
	MOVQ         x_base+0(FP), DI
	MOVQ         x_len+8(FP), CX
	MOVQ         q_base+24(FP), SI
	VBROADCASTSS scale+48(FP), Y15
	VPBROADCASTB nibble<>(SB), X13
	VPBROADCASTB eight<>(SB), X12
	VPXOR        Y14, Y14, Y14
	XORQ         AX, AX
	JMP          check

loop:
	VMOVDQU    (SI), X0
	VPSRLW     $4, X0, X1
	VPAND      X13, X0, X0
	VPAND      X13, X1, X1
	VPSUBB     X12, X0, X0
	VPSUBB     X12, X1, X1
	VPABSB     X0, X2
	VPABSB     X1, X3
	VPMAXUB    X2, X14, X14
	VPMAXUB    X3, X14, X14
	VPUNPCKLBW X1, X0, X2
	VPUNPCKHBW X1, X0, X4
	VPSRLDQ    $8, X2, X3
	VPSRLDQ    $8, X4, X5
	VPMOVSXBD  X2, Y2
	VPMOVSXBD  X3, Y3
	VPMOVSXBD  X4, Y4
	VPMOVSXBD  X5, Y5
	VALUES(0, Y2)
	VALUES(32, Y3)
	VALUES(64, Y4)
	VALUES(96, Y5)
	ADDQ       $16, SI
	ADDQ       $32, AX

check:
	CMPQ AX, CX
	JLT  loop
	MOST
	MOVL BX, ret+56(FP)
	VZEROUPPER
	RET

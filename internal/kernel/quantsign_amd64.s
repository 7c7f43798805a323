//go:build !purego

#include "textflag.h"

// The formats sign and bf16, 32 elements at a time. AX counts elements up to CX.

DATA magnitude64<>+0(SB)/8, $0x7fffffffffffffff // of a float64
GLOBL magnitude64<>(SB), RODATA|NOPTR, $8
DATA signs<>+0(SB)/4, $0x80000000
GLOBL signs<>(SB), RODATA|NOPTR, $4
DATA ones<>+0(SB)/4, $1
GLOBL ones<>(SB), RODATA|NOPTR, $4
DATA half<>+0(SB)/4, $0x7fff // less than half of what bf16 leaves out
GLOBL half<>(SB), RODATA|NOPTR, $4
DATA quiet<>+0(SB)/4, $0x40 // of a NaN in bf16
GLOBL quiet<>(SB), RODATA|NOPTR, $4

// How far bits 0 to 7 are from the sign's place.
DATA tosign<>+0(SB)/4, $31
DATA tosign<>+4(SB)/4, $30
DATA tosign<>+8(SB)/4, $29
DATA tosign<>+12(SB)/4, $28
DATA tosign<>+16(SB)/4, $27
DATA tosign<>+20(SB)/4, $26
DATA tosign<>+24(SB)/4, $25
DATA tosign<>+28(SB)/4, $24
GLOBL tosign<>(SB), RODATA|NOPTR, $32

#define MAGNITUDES(off, x, lanes) \
	VCVTPS2PD off(SI)(AX*4), x \
	VANDPD    Y13, x, x        \
	VADDPD    x, lanes, lanes

// func absSumAVX2(lanes *[8]float64, x []float32)
TEXT ·absSumAVX2(SB), NOSPLIT, $0-32
	MOVQ         lanes+0(FP), DI
	MOVQ         x_base+8(FP), SI
	MOVQ         x_len+16(FP), CX
	VMOVUPD      (DI), Y14
	VMOVUPD      32(DI), Y15
	VBROADCASTSD magnitude64<>(SB), Y13
	XORQ         AX, AX
	JMP          check

loop:
	MAGNITUDES(0, Y0, Y14)
	MAGNITUDES(16, Y1, Y15)
	MAGNITUDES(32, Y2, Y14)
	MAGNITUDES(48, Y3, Y15)
	MAGNITUDES(64, Y4, Y14)
	MAGNITUDES(80, Y5, Y15)
	MAGNITUDES(96, Y6, Y14)
	MAGNITUDES(112, Y7, Y15)
	ADDQ $32, AX

check:
	CMPQ    AX, CX
	JLT     loop
	VMOVUPD Y14, (DI)
	VMOVUPD Y15, 32(DI)
	VZEROUPPER
	RET

#define PACK(off, at) \
	VMOVUPS   off(SI)(AX*4), Y0 \
	VMOVMSKPS Y0, BX            \
	MOVB      BX, at(DI)

// func packSignsAVX2(bits []byte, x []float32)
TEXT ·packSignsAVX2(SB), NOSPLIT, $0-48
	MOVQ bits_base+0(FP), DI
	MOVQ x_base+24(FP), SI
	MOVQ x_len+32(FP), CX
	XORQ AX, AX
	JMP  check

loop:
	PACK(0, 0)
	PACK(32, 1)
	PACK(64, 2)
	PACK(96, 3)
	ADDQ $4, DI
	ADDQ $32, AX

check:
	CMPQ AX, CX
	JLT  loop
	VZEROUPPER
	RET

// SIGNED writes eight values: the scale, which is in Y15, with the signs that the lowest bits of Y0 are.
#define SIGNED(off) \
	VPSLLVD Y14, Y0, Y1            \
	VPAND   Y13, Y1, Y1            \
	VPOR    Y15, Y1, Y1            \
	VMOVDQU Y1, off(DI)(AX*4)

// func unpackSignsAVX2(x []float32, bits []byte, scale float32)
TEXT ·unpackSignsAVX2(SB), NOSPLIT, $0-52
	MOVQ         x_base+0(FP), DI
	MOVQ         x_len+8(FP), CX
	MOVQ         bits_base+24(FP), SI
	VBROADCASTSS scale+48(FP), Y15
	VMOVDQU      tosign<>(SB), Y14
	VPBROADCASTD signs<>(SB), Y13
	XORQ         AX, AX
	JMP          check

loop:
	VPBROADCASTD (SI), Y0
	SIGNED(0)
	VPSRLD       $8, Y0, Y0
	SIGNED(32)
	VPSRLD       $8, Y0, Y0
	SIGNED(64)
	VPSRLD       $8, Y0, Y0
	SIGNED(96)
	ADDQ         $4, SI
	ADDQ         $32, AX

check:
	CMPQ AX, CX
	JLT  loop
	VZEROUPPER
	RET

// HALVES is toBF16 of quantbf16.go.
#define HALVES(off, x) \
	VMOVDQU   off(SI)(AX*4), x  \
	VPSRLD    $16, x, Y4        \
	VPAND     Y15, Y4, Y5       \
	VPADDD    Y14, Y5, Y5       \
	VPADDD    x, Y5, Y5         \
	VPSRLD    $16, Y5, Y5       \
	VPOR      Y13, Y4, Y4       \
	VCMPPS    $3, x, x, x       \
	VPBLENDVB x, Y4, Y5, x

// func encodeBF16AVX2(dst []byte, src []float32)
TEXT ·encodeBF16AVX2(SB), NOSPLIT, $0-48
	MOVQ         dst_base+0(FP), DI
	MOVQ         src_base+24(FP), SI
	MOVQ         src_len+32(FP), CX
	VPBROADCASTD ones<>(SB), Y15
	VPBROADCASTD half<>(SB), Y14
	VPBROADCASTD quiet<>(SB), Y13
	XORQ         AX, AX
	JMP          check

loop:
	HALVES(0, Y0)
	HALVES(32, Y1)
	HALVES(64, Y2)
	HALVES(96, Y3)
	VPACKUSDW Y1, Y0, Y0
	VPACKUSDW Y3, Y2, Y2
	VPERMQ    $0xd8, Y0, Y0
	VPERMQ    $0xd8, Y2, Y2
	VMOVDQU   Y0, (DI)(AX*2)
	VMOVDQU   Y2, 32(DI)(AX*2)
	ADDQ      $32, AX

check:
	CMPQ AX, CX
	JLT  loop
	VZEROUPPER
	RET

#define WHOLE(from, to, x) \
	VPMOVZXWD from(SI)(AX*2), x \
	VPSLLD    $16, x, x         \
	VMOVDQU   x, to(DI)(AX*4)

// func decodeBF16AVX2(dst []float32, src []byte)
TEXT ·decodeBF16AVX2(SB), NOSPLIT, $0-48
	MOVQ dst_base+0(FP), DI
	MOVQ dst_len+8(FP), CX
	MOVQ src_base+24(FP), SI
	XORQ AX, AX
	JMP  check

loop:
	WHOLE(0, 0, Y0)
	WHOLE(16, 32, Y1)
	WHOLE(32, 64, Y2)
	WHOLE(48, 96, Y3)
	ADDQ $32, AX

check:
	CMPQ AX, CX
	JLT  loop
	VZEROUPPER
	RET

//go:build !purego

#include "go_asm.h"
#include "textflag.h"

// The outer steps, elements off/4 to off/4+7 a macro. They read and write memory in the order of the plain loops, so that the same
// slice may stand for two arguments. No multiply-add is fused. DI is p, SI is v, DX is g, R8 is b; Y13 is share, Y14 mu, Y15 lr.

// p -= lr*g
#define SGD(off) \
	VMULPS  off(DX)(AX*4), Y15, Y0 \
	VMOVUPS off(DI)(AX*4), Y1      \
	VSUBPS  Y0, Y1, Y1             \
	VMOVUPS Y1, off(DI)(AX*4)

// v = mu*v + g; p -= lr*v
#define MOMENTUM(off) \
	VMULPS  off(SI)(AX*4), Y14, Y0 \
	VADDPS  off(DX)(AX*4), Y0, Y0  \
	VMOVUPS Y0, off(SI)(AX*4)      \
	VMULPS  Y0, Y15, Y0            \
	VMOVUPS off(DI)(AX*4), Y1      \
	VSUBPS  Y0, Y1, Y1             \
	VMOVUPS Y1, off(DI)(AX*4)

// v = mu*v + g; p -= lr*(g + mu*v)
#define NESTEROV(off) \
	VMULPS  off(SI)(AX*4), Y14, Y0 \
	VADDPS  off(DX)(AX*4), Y0, Y0  \
	VMOVUPS Y0, off(SI)(AX*4)      \
	VMULPS  Y0, Y14, Y0            \
	VADDPS  off(DX)(AX*4), Y0, Y0  \
	VMULPS  Y0, Y15, Y0            \
	VMOVUPS off(DI)(AX*4), Y1      \
	VSUBPS  Y0, Y1, Y1             \
	VMOVUPS Y1, off(DI)(AX*4)

// b += n*g; p -= rate*g. DI is p, R8 is b, DX is g; Y15 is n, Y14 the rate.
#define DELAYED(off) \
	VMULPS  off(DX)(AX*4), Y15, Y0 \
	VADDPS  off(R8)(AX*4), Y0, Y0  \
	VMOVUPS Y0, off(R8)(AX*4)      \
	VMULPS  off(DX)(AX*4), Y14, Y0 \
	VMOVUPS off(DI)(AX*4), Y1      \
	VSUBPS  Y0, Y1, Y1             \
	VMOVUPS Y1, off(DI)(AX*4)

// v = mu*v + share*(b + n*g); p -= rate*g + lr*(mu*v); b = 0 (Y12). SI is v; Y15 is n, Y14 mu, Y13 the share, Y11 the rate, Y10 lr.
#define DELAYEDMOMENTUM(off) \
	VMULPS  off(SI)(AX*4), Y14, Y0 \
	VMOVUPS off(DX)(AX*4), Y3      \
	VMULPS  Y3, Y15, Y2            \
	VADDPS  off(R8)(AX*4), Y2, Y2  \
	VMULPS  Y2, Y13, Y2            \
	VADDPS  Y2, Y0, Y0             \
	VMOVUPS Y0, off(SI)(AX*4)      \
	VMULPS  Y0, Y14, Y0            \
	VMULPS  Y0, Y10, Y0            \
	VMULPS  Y3, Y11, Y3            \
	VADDPS  Y0, Y3, Y0             \
	VMOVUPS off(DI)(AX*4), Y1      \
	VSUBPS  Y0, Y1, Y1             \
	VMOVUPS Y1, off(DI)(AX*4)      \
	VMOVUPS Y12, off(R8)(AX*4)

// func sgdAVX2(p, g []float32, lr float32)
TEXT ·sgdAVX2(SB), NOSPLIT, $0-52
	MOVQ         p_base+0(FP), DI
	MOVQ         p_len+8(FP), CX
	MOVQ         g_base+24(FP), DX
	VBROADCASTSS lr+48(FP), Y15
	XORQ         AX, AX
	JMP          check

loop:
	SGD(0)
	SGD(32)
	ADDQ $16, AX

check:
	CMPQ AX, CX
	JLT  loop
	VZEROUPPER
	RET

// func momentumAVX2(p, v, g []float32, lr, mu float32)
TEXT ·momentumAVX2(SB), NOSPLIT, $0-80
	MOVQ         p_base+0(FP), DI
	MOVQ         p_len+8(FP), CX
	MOVQ         v_base+24(FP), SI
	MOVQ         g_base+48(FP), DX
	VBROADCASTSS lr+72(FP), Y15
	VBROADCASTSS mu+76(FP), Y14
	XORQ         AX, AX
	JMP          check

loop:
	MOMENTUM(0)
	MOMENTUM(32)
	ADDQ $16, AX

check:
	CMPQ AX, CX
	JLT  loop
	VZEROUPPER
	RET

// func nesterovAVX2(p, v, g []float32, lr, mu float32)
TEXT ·nesterovAVX2(SB), NOSPLIT, $0-80
	MOVQ         p_base+0(FP), DI
	MOVQ         p_len+8(FP), CX
	MOVQ         v_base+24(FP), SI
	MOVQ         g_base+48(FP), DX
	VBROADCASTSS lr+72(FP), Y15
	VBROADCASTSS mu+76(FP), Y14
	XORQ         AX, AX
	JMP          check

loop:
	NESTEROV(0)
	NESTEROV(32)
	ADDQ $16, AX

check:
	CMPQ AX, CX
	JLT  loop
	VZEROUPPER
	RET

// func delayedAVX2(p, b, g []float32, count, rate float32)
TEXT ·delayedAVX2(SB), NOSPLIT, $0-80
	MOVQ         p_base+0(FP), DI
	MOVQ         p_len+8(FP), CX
	MOVQ         b_base+24(FP), R8
	MOVQ         g_base+48(FP), DX
	VBROADCASTSS count+72(FP), Y15
	VBROADCASTSS rate+76(FP), Y14
	XORQ         AX, AX
	JMP          check

loop:
	DELAYED(0)
	DELAYED(32)
	ADDQ $16, AX

check:
	CMPQ AX, CX
	JLT  loop
	VZEROUPPER
	RET

// func delayedMomentumAVX2(p, v, b, g []float32, count, rate, lr, mu, share float32)
TEXT ·delayedMomentumAVX2(SB), NOSPLIT, $0-116
	MOVQ         p_base+0(FP), DI
	MOVQ         p_len+8(FP), CX
	MOVQ         v_base+24(FP), SI
	MOVQ         b_base+48(FP), R8
	MOVQ         g_base+72(FP), DX
	VBROADCASTSS count+96(FP), Y15
	VBROADCASTSS rate+100(FP), Y11
	VBROADCASTSS lr+104(FP), Y10
	VBROADCASTSS mu+108(FP), Y14
	VBROADCASTSS share+112(FP), Y13
	VXORPS       Y12, Y12, Y12
	XORQ         AX, AX
	JMP          check

loop:
	DELAYEDMOMENTUM(0)
	DELAYEDMOMENTUM(32)
	ADDQ $16, AX

check:
	CMPQ AX, CX
	JLT  loop
	VZEROUPPER
	RET

DATA largest<>+0(SB)/4, $0x7f7fffff
GLOBL largest<>(SB), RODATA|NOPTR, $4

// One step of Adam. DI is p, SI is m, R8 is v, DX is g; Y8 is beta1, Y9 beta2, Y10 rest1, Y11 rest2, Y12 size, Y13 root, Y14 eps, Y15 the
// largest float32. VMINPS keeps a NaN that stands first, as the plain loop's comparison does.
#define ADAM(off) \
	VMOVUPS off(DX)(AX*4), Y0     \
	VMULPS  off(SI)(AX*4), Y8, Y1 \
	VMULPS  Y0, Y10, Y2           \
	VADDPS  Y2, Y1, Y1            \
	VMULPS  off(R8)(AX*4), Y9, Y3 \
	VMULPS  Y0, Y11, Y2           \
	VMULPS  Y0, Y2, Y2            \
	VADDPS  Y2, Y3, Y3            \
	VMINPS  Y3, Y15, Y3           \
	VMOVUPS Y1, off(SI)(AX*4)     \
	VMOVUPS Y3, off(R8)(AX*4)     \
	VMULPS  Y1, Y12, Y1           \
	VSQRTPS Y3, Y3                \
	VDIVPS  Y13, Y3, Y3           \
	VADDPS  Y14, Y3, Y3           \
	VDIVPS  Y3, Y1, Y1            \
	VMOVUPS off(DI)(AX*4), Y2     \
	VSUBPS  Y1, Y2, Y2            \
	VMOVUPS Y2, off(DI)(AX*4)

// func adamAVX2(p, m, v, g []float32, a *Adam)
TEXT ·adamAVX2(SB), NOSPLIT, $0-104
	MOVQ         p_base+0(FP), DI
	MOVQ         p_len+8(FP), CX
	MOVQ         m_base+24(FP), SI
	MOVQ         v_base+48(FP), R8
	MOVQ         g_base+72(FP), DX
	MOVQ         a+96(FP), BX
	VBROADCASTSS Adam_Beta1(BX), Y8
	VBROADCASTSS Adam_Beta2(BX), Y9
	VBROADCASTSS Adam_Rest1(BX), Y10
	VBROADCASTSS Adam_Rest2(BX), Y11
	VBROADCASTSS Adam_Size(BX), Y12
	VBROADCASTSS Adam_Root(BX), Y13
	VBROADCASTSS Adam_Eps(BX), Y14
	VBROADCASTSS largest<>(SB), Y15
	XORQ         AX, AX
	JMP          check

loop:
	ADAM(0)
	ADAM(32)
	ADDQ $16, AX

check:
	CMPQ AX, CX
	JLT  loop
	VZEROUPPER
	RET

#include "matmul.h"

#include <string.h>

/*
 * How a product is cut. The innermost loop keeps a block of ROWS x COLUMNS sums in registers and adds, for each
 * of up to DEPTH values of the inner dimension, ROWS values of a times COLUMNS values of b. Those of b were
 * copied to a panel that lies in a row and stays in the L1 cache while the loop goes down the rows of a tile.
 */
enum { ROWS = 6, COLUMNS = 16, DEPTH = 256, TILE_ROWS = 42 * ROWS };

/* What a vector register holds: with AVX2, and anywhere. */
typedef float eight __attribute__((vector_size(8 * sizeof(float))));
typedef float four __attribute__((vector_size(4 * sizeof(float))));

#define INLINE static inline __attribute__((always_inline))

struct product {
	float *c;
	size_t stride;
	struct matrix a, b;
	size_t m, n, k, panels;
	bool add;
};

static inline size_t least(size_t a, size_t b) { return a < b ? a : b; }

static inline const float *element(struct matrix m, size_t i, size_t j) { return m.data + i * m.row + j * m.column; }

/* Copies b's rows [l, l+depth) and columns [j, j+n) to panel, zeros beyond n. */
static inline void pack(float *panel, struct matrix b, size_t l, size_t j, size_t depth, size_t n) {
	for (size_t i = 0; i < depth; i++) {
		const float *from = element(b, l + i, j);
		for (size_t x = 0; x < n; x++) panel[i * COLUMNS + x] = from[x * b.column];
		for (size_t x = n; x < COLUMNS; x++) panel[i * COLUMNS + x] = 0;
	}
}

/* Computes sums = the product of depth columns of ROWS rows, step elements from column to column, and the
 * panel: for 16 registers of eight values. */
INLINE void block_of_eights(float sums[ROWS][COLUMNS], const float *const rows[ROWS], size_t step, const float *panel, size_t depth) {
	eight left[ROWS] = {{0}}, right[ROWS] = {{0}};
	for (size_t l = 0; l < depth; l++) {
		eight b0, b1;
		memcpy(&b0, panel + l * COLUMNS, sizeof b0);
		memcpy(&b1, panel + l * COLUMNS + 8, sizeof b1);
#pragma GCC unroll 6
		for (int i = 0; i < ROWS; i++) {
			float a = rows[i][l * step];
			left[i] += a * b0;
			right[i] += a * b1;
		}
	}
	for (int i = 0; i < ROWS; i++) {
		memcpy(sums[i], &left[i], sizeof left[i]);
		memcpy(sums[i] + 8, &right[i], sizeof right[i]);
	}
}

/* The same for 16 registers of four values: half of the columns at a time. */
INLINE void block_of_fours(float sums[ROWS][COLUMNS], const float *const rows[ROWS], size_t step, const float *panel, size_t depth) {
	for (int half = 0; half < COLUMNS; half += 8) {
		four left[ROWS] = {{0}}, right[ROWS] = {{0}};
		for (size_t l = 0; l < depth; l++) {
			four b0, b1;
			memcpy(&b0, panel + l * COLUMNS + half, sizeof b0);
			memcpy(&b1, panel + l * COLUMNS + half + 4, sizeof b1);
#pragma GCC unroll 6
			for (int i = 0; i < ROWS; i++) {
				float a = rows[i][l * step];
				left[i] += a * b0;
				right[i] += a * b1;
			}
		}
		for (int i = 0; i < ROWS; i++) {
			memcpy(sums[i] + half, &left[i], sizeof left[i]);
			memcpy(sums[i] + half + 4, &right[i], sizeof right[i]);
		}
	}
}

static inline void store(float *c, size_t stride, float sums[ROWS][COLUMNS], size_t rows, size_t n, bool add) {
	for (size_t i = 0; i < rows; i++) {
		for (size_t x = 0; x < n; x++) c[i * stride + x] = sums[i][x] + (add ? c[i * stride + x] : 0);
	}
}

/* The part of c at row i and column j, up to TILE_ROWS x COLUMNS. */
INLINE void tile(const struct product *p, size_t i, size_t j, bool eights) {
	float panel[DEPTH * COLUMNS], sums[ROWS][COLUMNS];
	size_t n = least(COLUMNS, p->n - j), end = least(i + TILE_ROWS, p->m);
	for (size_t l = 0; l < p->k; l += DEPTH) {
		size_t depth = least(DEPTH, p->k - l);
		pack(panel, p->b, l, j, depth, n);
		for (size_t r = i; r < end; r += ROWS) {
			const float *rows[ROWS]; /* the last one again where there are fewer: those sums are not stored */
			for (size_t x = 0; x < ROWS; x++) rows[x] = element(p->a, least(r + x, end - 1), l);
			if (eights) block_of_eights(sums, rows, p->a.column, panel, depth);
			else block_of_fours(sums, rows, p->a.column, panel, depth);
			store(p->c + r * p->stride + j, p->stride, sums, least(ROWS, end - r), n, p->add || l > 0);
		}
	}
}

INLINE void tiles(const struct product *p, size_t begin, size_t end, bool eights) {
	for (size_t t = begin; t < end; t++) tile(p, t / p->panels * TILE_ROWS, t % p->panels * COLUMNS, eights);
}

static void tiles_anywhere(const void *operation, size_t begin, size_t end) { tiles(operation, begin, end, false); }

#if defined(__x86_64__) && defined(__GNUC__) && !defined(ANY_PROCESSOR)
__attribute__((target("avx2,fma"))) static void tiles_avx2(const void *operation, size_t begin, size_t end) {
	tiles(operation, begin, end, true);
}

static work best_tiles(void) {
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? tiles_avx2 : tiles_anywhere;
}
#else
static work best_tiles(void) { return tiles_anywhere; }
#endif

void matmul(struct team *team, float *c, size_t stride, struct matrix a, struct matrix b, size_t m, size_t n, size_t k, bool add) {
	size_t panels = (n + COLUMNS - 1) / COLUMNS;
	struct product p = {c, stride, a, b, m, n, k, panels, add};
	split(team, (m + TILE_ROWS - 1) / TILE_ROWS * panels, best_tiles(), &p);
}

float dot(const float *a, const float *b, size_t n) {
	enum { PARTS = 8 }; /* so that the compiler may take vectors */
	float parts[PARTS] = {0}, sum = 0;
	size_t i = 0;
	for (; i + PARTS <= n; i += PARTS) {
		for (size_t x = 0; x < PARTS; x++) parts[x] += a[i + x] * b[i + x];
	}
	for (; i < n; i++) sum += a[i] * b[i];
	for (size_t x = 0; x < PARTS; x++) sum += parts[x];
	return sum;
}

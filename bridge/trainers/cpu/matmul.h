/* Matrix products, where nearly all of the time goes, and sums of many products. */
#ifndef P2PDILOCO_CPU_MATMUL_H
#define P2PDILOCO_CPU_MATMUL_H

#include <stdbool.h>
#include <stddef.h>

#include "team.h"

/* A view: element (i, j) is data[i * row + j * column]. */
struct matrix {
	const float *data;
	size_t row, column;
};

/* Row-major, so many elements from row to row. */
static inline struct matrix mat(const float *data, size_t stride) { return (struct matrix){data, stride, 1}; }

/* The transpose, a view too. */
static inline struct matrix transposed(struct matrix m) { return (struct matrix){m.data, m.column, m.row}; }

/* Computes c = a b, or c += a b with add, for a (m x k), b (k x n) and c (m x n), row-major with so many
 * elements from row to row. */
void matmul(struct team *team, float *c, size_t stride, struct matrix a, struct matrix b, size_t m, size_t n, size_t k, bool add);

/* The sum of n products, in several partial sums. */
float dot(const float *a, const float *b, size_t n);

#endif

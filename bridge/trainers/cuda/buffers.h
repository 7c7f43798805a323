/* The memory of one step. Rows are positions: sequences x context. */
#pragma once

#include "model.h"

/* What a block keeps from the forward to the backward pass. */
template <class T> struct Activations {
	Buffer<float> in;    /* (rows, d): the residual stream before the block */
	Buffer<float> mid;   /* (rows, d): between attention and MLP */
	Buffer<float2> norm1, norm2; /* (rows): mean and 1/deviation */
	Buffer<T> ln1, ln2;  /* (rows, d): the norms' outputs */
	Buffer<T> heads;     /* 3 of (sequences, heads, context, size): queries, keys, values */
	Buffer<T> weights;   /* (sequences, heads, context, context) */
	Buffer<T> mixed;     /* (rows, d): heads' outputs before the projection */
	Buffer<T> up, gelu;  /* (rows, 4 d) */

	explicit Activations(const Sizes &s) {
		size_t n = (size_t)s.rows() * s.width, rows = s.rows();
		const char *what = "the activations of a step";
		in = {n, what}, mid = {n, what};
		norm1 = {rows, what}, norm2 = {rows, what};
		ln1 = {n, what}, ln2 = {n, what};
		heads = {3 * n, what}, weights = {rows * s.heads * s.context, what}, mixed = {n, what};
		up = {4 * n, what}, gelu = {4 * n, what};
	}
};

/* What every block uses again, and the head's own. */
template <class T> struct Scratch {
	Buffer<float> last;   /* (rows, d): the residual stream after all blocks */
	Buffer<float2> norm;  /* (rows) */
	Buffer<T> final;      /* (rows, d): the last norm's output */
	Buffer<float> logits; /* (rows, vocabulary) */
	Buffer<T> d_logits;   /* the same; none where T is float, since logits then serve */
	Buffer<float> losses; /* (rows) */

	Buffer<float> stream;   /* (rows, d): gradient of the residual stream */
	Buffer<T> stream_copy;  /* the same as T; none where T is float */
	Buffer<T> narrow;       /* (rows, d): of a norm's or the attention's output */
	Buffer<T> wide;         /* (rows, 4 d): of the MLP's inner values; also queries, keys and values by rows */
	Buffer<T> heads, mixed; /* like Activations::heads, and a third of it */
	Buffer<T> scores;       /* (sequences, heads, context, context) */
	Buffer<float> pieces, more_pieces; /* of sums over rows */

	explicit Scratch(const Sizes &, size_t pieces_elements);
};

template <class T> Scratch<T>::Scratch(const Sizes &s, size_t pieces_elements) {
	size_t rows = s.rows(), n = rows * s.width;
	const char *what = "a step's working memory";
	const bool apart = sizeof(T) != sizeof(float);
	last = {n, what}, norm = {rows, what}, final = {n, what};
	logits = {rows * VOCABULARY, what}, losses = {rows, what};
	stream = {n, what}, narrow = {n, what}, wide = {4 * n, what};
	heads = {3 * n, what}, mixed = {n, what}, scores = {rows * s.heads * s.context, what};
	pieces = {pieces_elements, what}, more_pieces = {pieces_elements, what};
	if (apart)
		d_logits = {rows * VOCABULARY, what}, stream_copy = {n, what};
}

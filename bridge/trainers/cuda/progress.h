#pragma once

#include <cstdint>

/* What the device knows about the steps of a round. The host looks now and then. */
struct Progress {
	double loss_sum; /* of the steps' mean losses */
	double norm_sum; /* of the gradients' norms before clipping */
	double loss;     /* of the newest step */
	double norm;
	float scale;     /* that clips the newest gradient */
	uint64_t bad_step; /* the first, from 1, whose loss or gradient is no finite number: it and later ones change nothing */
};

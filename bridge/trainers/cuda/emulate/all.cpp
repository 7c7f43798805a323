/* The emulation as one source: a compiler reads the headers once, and tests begin sooner. */
#include "streams.cpp"
#include "memory.cpp"
#include "grid.cpp"
#include "blas.cpp"

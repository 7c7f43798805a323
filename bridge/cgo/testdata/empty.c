/* A library that is no trainer. */
int p2pdiloco_test_nothing(void);
int p2pdiloco_test_nothing(void) { return 0; }

#ifndef COUNTED_CALLS_H
#define COUNTED_CALLS_H

/// How many runs one dump of callgrind can hold apart.
#define COUNTED_CALLS 64

/// Calls a function from a function of its own for each number below COUNTED_CALLS, so that one dump of callgrind has the
/// cost of each run. A dump for each run takes four times as long as what is counted.
void counted_call(unsigned number, void (*_Nonnull body)(void *_Nonnull context), void *_Nonnull context);

/// callgrind starts to count when this is called.
void begin_counting(void);

/// callgrind writes down what it has counted when this is called.
void end_counting(void);

#endif

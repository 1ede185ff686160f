#include "CountedCalls.h"

// Neither inlined nor merged, and no call is the last thing that they do, so that each has a frame and a name of its own.
#define APART __attribute__((noinline, optnone))

#define CALL(number) \
    APART static void counted_##number(void (*body)(void *), void *context) { body(context); }
#define EIGHT(tens) \
    CALL(tens##0) CALL(tens##1) CALL(tens##2) CALL(tens##3) CALL(tens##4) CALL(tens##5) CALL(tens##6) CALL(tens##7)
EIGHT(0) EIGHT(1) EIGHT(2) EIGHT(3) EIGHT(4) EIGHT(5) EIGHT(6) EIGHT(7)

#define NAMES(tens) \
    counted_##tens##0, counted_##tens##1, counted_##tens##2, counted_##tens##3, \
    counted_##tens##4, counted_##tens##5, counted_##tens##6, counted_##tens##7,

void counted_call(unsigned number, void (*body)(void *), void *context) {
    static void (*const calls[COUNTED_CALLS])(void (*)(void *), void *) = {
        NAMES(0) NAMES(1) NAMES(2) NAMES(3) NAMES(4) NAMES(5) NAMES(6) NAMES(7)
    };
    calls[number % COUNTED_CALLS](body, context);
}

APART void begin_counting(void) {}
APART void end_counting(void) {}

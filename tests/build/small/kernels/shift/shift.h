#ifndef SHIFT_H
#define SHIFT_H
#include "../common/amount.h"
static const float shift_amount = AMOUNT;
#endif

/* adamw (Loshchilov and Hutter, 2019): the weight decay shrinks p by itself. */
#define DECOUPLED 1
#include "adam_rule.h"

/* adam (Kingma and Ba, 2015): the weight decay is added to the gradient. */
#define DECOUPLED 0
#include "adam_rule.h"

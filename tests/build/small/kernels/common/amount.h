#ifndef AMOUNT_H
#define AMOUNT_H
#define AMOUNT 10
#endif

/* Calls of C++ functions from C, without a compiler of C++ and without its library, which _core
   does not have to load for those who bring none. The interface that exceptions of all languages go
   by asks each frame's personality whether it takes one: ours takes all, and hands them to the
   library that threw them. */
#include "guarded.h"

#include <dlfcn.h>
#include <string.h>
#include <unwind.h>

#ifdef __x86_64__

/* __cxa_begin_catch and __cxa_end_catch: an exception that was caught and is let go. */
static void *(*begin_catch)(void *exception);
static void (*end_catch)(void);

#define FROM_BELOW __attribute__((used, visibility("hidden")))

_Unwind_Reason_Code guarded_personality(
    int version, _Unwind_Action actions, _Unwind_Exception_Class class,
    struct _Unwind_Exception *exception, struct _Unwind_Context *context);
void guarded_caught(void *exception);

/* The frame's own data is the address where it goes on after an exception. What is no exception but
   the end of a thread passes. */
FROM_BELOW _Unwind_Reason_Code
guarded_personality(
    int version, _Unwind_Action actions, _Unwind_Exception_Class class,
    struct _Unwind_Exception *exception, struct _Unwind_Context *context)
{
    (void)class;
    if (version != 1) {
        return _URC_FATAL_PHASE1_ERROR;
    }
    if (actions & _UA_SEARCH_PHASE) {
        return _URC_HANDLER_FOUND;
    }
    if (!(actions & _UA_HANDLER_FRAME)) {
        return _URC_CONTINUE_UNWIND;
    }
    _Unwind_SetGR(context, __builtin_eh_return_data_regno(0), (_Unwind_Word)exception);
    _Unwind_SetIP(context, (_Unwind_Ptr)_Unwind_GetLanguageSpecificData(context));
    return _URC_INSTALL_CONTEXT;
}

FROM_BELOW void
guarded_caught(void *exception)
{
    begin_catch(exception);
    end_catch();
}

/* guarded_call(function, first, second) */
__asm__(".pushsection .text, \"ax\", @progbits\n"
        ".globl guarded_call\n"
        ".hidden guarded_call\n"
        ".type guarded_call, @function\n"
        ".p2align 4\n"
        "guarded_call:\n"
        ".cfi_startproc\n"
        ".cfi_personality 0x1b, guarded_personality\n" /* 0x1b: relative, four bytes */
        ".cfi_lsda 0x1b, .Lguarded_thrown\n"
        "    sub $8, %rsp\n"
        ".cfi_adjust_cfa_offset 8\n"
        "    mov %rdi, %rax\n"
        "    mov %rsi, %rdi\n"
        "    mov %rdx, %rsi\n"
        "    call *%rax\n"
        "    xor %eax, %eax\n"
        "    add $8, %rsp\n"
        ".cfi_adjust_cfa_offset -8\n"
        "    ret\n"
        ".Lguarded_thrown:\n" /* as it was during the call */
        ".cfi_adjust_cfa_offset 8\n"
        "    mov %rax, %rdi\n"
        "    call guarded_caught\n"
        "    mov $-1, %eax\n"
        "    add $8, %rsp\n"
        ".cfi_adjust_cfa_offset -8\n"
        "    ret\n"
        ".cfi_endproc\n"
        ".size guarded_call, .-guarded_call\n"
        ".popsection\n");

bool
guarded_open(void)
{
    void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
    void *begin = library ? dlsym(library, "__cxa_begin_catch") : NULL;
    void *end = library ? dlsym(library, "__cxa_end_catch") : NULL;
    memcpy(&begin_catch, &begin, sizeof begin);
    memcpy(&end_catch, &end, sizeof end);
    return begin && end;
}

#else

bool
guarded_open(void)
{
    return false;
}

int
guarded_call(guarded_function *function, const void *first, void *second)
{
    function(first, second);
    return 0;
}

#endif

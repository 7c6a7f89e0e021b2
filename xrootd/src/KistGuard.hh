#ifndef KIST_GUARD_HH
#define KIST_GUARD_HH

#include <cerrno>
#include <new>

// Around each function that XRootD calls: nothing that goes wrong in it may end the server's process.
#define KIST_BEGIN try {
#define KIST_END                     \
    }                                \
    catch (const std::bad_alloc &) { \
        return -ENOMEM;              \
    }                                \
    catch (...) {                    \
        return -EIO;                 \
    }

#endif

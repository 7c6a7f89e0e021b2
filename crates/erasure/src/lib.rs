//! Reed-Solomon coding over GF(2^8).

//! The codec against an independent implementation, against ISA-L's bytes, and against wrong use.

mod format;
mod kernels;
mod reference;
mod refusals;

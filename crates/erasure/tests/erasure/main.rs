//! The codec against an independent implementation, against ISA-L's bytes, and against wrong use.

mod cells;
mod format;
mod isal;
mod kernels;
mod long;
mod lrc;
mod reference;
mod refusals;
mod verified;

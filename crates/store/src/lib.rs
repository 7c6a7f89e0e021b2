//! The catalogue's embedded engine and its single writer.

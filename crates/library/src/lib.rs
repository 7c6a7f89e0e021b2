//! Tape libraries and drives; the virtual library.

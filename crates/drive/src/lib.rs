//! Object drives: extents on a directory.

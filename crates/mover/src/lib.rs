//! One session between the pool and a tape.

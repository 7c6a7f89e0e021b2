//! What to mount, write and read next, and why everything else waits.

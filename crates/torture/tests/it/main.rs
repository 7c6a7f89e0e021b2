//! The tests of this crate from outside, in one program: each is linked once.

mod kill_points;
mod mixed_load;
mod syscall_images;

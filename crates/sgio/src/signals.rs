//! Keeping signals from a thread.
//!
//! The driver waits for the end of a command in a way that a signal interrupts. If the signal's handler was
//! installed with SA_RESTART, the kernel then begins the ioctl anew, and the command is sent a second time
//! while the first is still on its way (linux: drivers/scsi/sg.c, `sg_ioctl_common`): a block written twice.
//! So the thread takes no signals while it waits; the process's other threads do.

use std::ffi::c_int;

/// `sigset_t` of glibc and musl: 1,024 bits.
#[repr(C)]
#[derive(Clone, Copy)]
struct SignalSet([u64; 16]);

const SIG_SETMASK: c_int = 2;

unsafe extern "C" {
    fn sigfillset(set: *mut SignalSet) -> c_int;
    fn pthread_sigmask(how: c_int, set: *const SignalSet, old: *mut SignalSet) -> c_int;
}

/// While it lives, this thread takes no signals.
pub struct Blocked {
    before: SignalSet,
    /// Signals belong to the thread that blocked them.
    _of_this_thread: std::marker::PhantomData<*const ()>,
}

impl Blocked {
    /// Blocks all signals that can be. `None` if the system refuses.
    pub fn new() -> Option<Blocked> {
        let (mut all, mut before) = (SignalSet([0; 16]), SignalSet([0; 16]));
        // SAFETY: both pointers are to sets of the size that the C library has for them on Linux, which live
        // over the calls.
        let done = unsafe {
            sigfillset(&raw mut all) == 0
                && pthread_sigmask(SIG_SETMASK, &raw const all, &raw mut before) == 0
        };
        done.then_some(Blocked { before, _of_this_thread: std::marker::PhantomData })
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the set was filled by the same call; no old one is asked for.
        let done = unsafe { pthread_sigmask(SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
        debug_assert_eq!(done, 0, "a mask that was set before can be set again");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SigBlk of this thread, as the kernel has it.
    fn blocked() -> u64 {
        let text = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    }

    #[test]
    fn a_thread_takes_no_signals_meanwhile() {
        let before = blocked();
        let (interrupt, child) = (1 << (2 - 1), 1 << (17 - 1));
        {
            let _blocked = Blocked::new().unwrap();
            assert_eq!(blocked() & (interrupt | child), interrupt | child);
            // KILL and STOP cannot be blocked.
            assert_eq!(blocked() & 1 << (9 - 1), 0);
        }
        assert_eq!(blocked(), before);
    }
}

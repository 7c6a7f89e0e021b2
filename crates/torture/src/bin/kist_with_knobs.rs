//! The program `kist` with the bugs of `base::planted` in reach of `KIST_PLANTED`, for the tests that must
//! find them.

use std::process::ExitCode;

fn main() -> ExitCode {
    const { assert!(base::planted::CAN_PLANT, "this program is there to be wrong on purpose") };
    kist::main()
}

//! For the fuzz targets: frames as they come.

use crate::frame::{FRAME_BYTES_MAX, HEADER_BYTES, Header, IO_BYTES_MAX, Request};
use crate::window::Window;

/// A frame: header and body.
///
/// # Panics
/// If what is read breaks a limit.
pub fn frame(data: &[u8]) {
    let Some((header, body)) = data.split_first_chunk::<HEADER_BYTES>() else { return };
    let Ok(header) = Header::parse(header) else { return };
    assert!(header.length <= FRAME_BYTES_MAX);
    match Request::parse(header.tag, body) {
        Ok(Request::ReadVector(all)) => {
            let sum: u64 = all.iter().map(|segment| u64::from(segment.length)).sum();
            assert!(sum <= u64::from(IO_BYTES_MAX));
        }
        Ok(Request::Write { offset, bytes }) => {
            let mut window = Window::new(1 << 20);
            let _ = window.take(offset % (2 << 20), bytes);
            assert!(window.kept() <= 1 << 20);
        }
        _ => {}
    }
}

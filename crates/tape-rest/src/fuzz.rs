//! For the fuzz targets: parsers of what clients send.

use catalogue::{PRIORITY_MAX, REQUEST_PATHS_MAX};

use crate::address::{Address, ROOT, is_host};
use crate::input;
use crate::settings::TapeRestSettings;

/// A body: the first byte says of what.
///
/// # Panics
/// If more comes out than goes in, or what is beyond a limit.
pub fn body(data: &[u8]) {
    let Some((kind, body)) = data.split_first() else { return };
    let settings = TapeRestSettings::default();
    if kind % 2 == 0 {
        let Ok(stage) = input::stage(body, &settings) else { return };
        assert!((1..=REQUEST_PATHS_MAX as usize).contains(&stage.paths.len()));
        assert!(stage.priority <= PRIORITY_MAX);
        for path in stage.paths {
            assert!(path.text.len() <= body.len() && path.pin.is_none_or(|pin| pin <= settings.lifetime_max));
        }
    } else {
        let Ok((paths, count)) = input::paths(body, &settings) else { return };
        assert!(paths.len() <= count && count <= body.len());
    }
}

/// Paths of addresses, hosts, durations.
///
/// # Panics
/// If what names a call does not stand below the root.
pub fn texts(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if Address::of(text).is_some() {
        assert!(text.starts_with(ROOT));
    }
    let _ = Address::of(&format!("{ROOT}{text}"));
    let _ = entrance::iso_duration::parse(text);
    if is_host(text) {
        assert!(format!("http://{text}/").parse::<http::Uri>().is_ok(), "{text}");
    }
}

//! The addresses of a request: the namespace begins at the root of the listener.

use base::ArchivePath;
use entrance::{Kind, Refusal, percent};
use http::header::HOST;
use http::request::Parts;
use http::{HeaderMap, Uri};

/// Where the mounted services of a listener stand, and nothing of the archive.
pub(crate) const WELL_KNOWN: &str = "/.well-known/";

/// What a request is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    pub path: ArchivePath,
    /// Whether it was written with a slash at its end, as directories are.
    pub has_slash: bool,
}

impl Target {
    /// Of the path of an address, still encoded. Several slashes together are one: clients of the grid join
    /// paths with little care.
    ///
    /// # Errors
    /// [`Kind::BadPath`].
    pub(crate) fn parse(raw: &str) -> Result<Target, Refusal> {
        // `*` and the address of a `CONNECT` name nothing in the archive.
        if !raw.starts_with('/') {
            return Err(Refusal::new(Kind::BadPath, "the address has no path that begins with a slash"));
        }
        let mut joined = String::with_capacity(raw.len());
        for part in raw.split('/').filter(|part| !part.is_empty()) {
            joined.push('/');
            joined.push_str(part);
        }
        let path = percent::archive_path(&joined)?;
        if path.as_str().starts_with(WELL_KNOWN) || path.as_str() == "/.well-known" {
            return Err(Refusal::new(Kind::BadPath, "below /.well-known stand services, and no files"));
        }
        Ok(Target { path, has_slash: raw.ends_with('/') })
    }
}

/// An archive path as it stands in an address; of directories with a slash at its end.
pub(crate) fn href(path: &ArchivePath, is_directory: bool) -> String {
    let mut out = String::with_capacity(path.as_str().len() + 8);
    percent::encode_path(&mut out, path.as_str());
    if is_directory && !out.ends_with('/') {
        out.push('/');
    }
    out
}

/// The target of `COPY` and `MOVE`, which has to be on this server.
///
/// # Errors
/// If the header is missing or malformed; `None` if it names another server.
pub(crate) fn destination(parts: &Parts) -> Result<Option<Target>, Refusal> {
    let value = entrance::headers::single(&parts.headers, &"destination".parse().map_err(|_| missing())?)?;
    let text = value.ok_or_else(missing)?.to_str().map_err(|_| malformed())?.trim();
    match here(text, parts)? {
        Some(path) => Target::parse(&path).map(Some),
        None => Ok(None),
    }
}

/// The path of an absolute address or of an absolute path, if it is of this server: of the host that the request
/// names.
pub(crate) fn here(text: &str, parts: &Parts) -> Result<Option<String>, Refusal> {
    if text.starts_with('/') && !text.starts_with("//") {
        return Ok(Some(text.split(['?', '#']).next().unwrap_or_default().to_owned()));
    }
    let uri: Uri = text.parse().map_err(|_| malformed())?;
    let authority = uri.authority().ok_or_else(malformed)?;
    let is_http = matches!(uri.scheme_str(), Some("http" | "https" | "dav" | "davs"));
    let is_here = is_http
        && own_host(&parts.uri, &parts.headers).is_some_and(|own| same_host(&own, authority.as_str()));
    Ok(is_here.then(|| uri.path().to_owned()))
}

/// The host and port that a request names.
pub(crate) fn own_host(uri: &Uri, headers: &HeaderMap) -> Option<String> {
    if let Some(authority) = uri.authority() {
        return Some(authority.as_str().to_owned());
    }
    headers.get(HOST)?.to_str().ok().map(str::to_owned)
}

/// Whether two hosts with or without ports are one. The ports that schemes imply may be written or not.
fn same_host(one: &str, other: &str) -> bool {
    let plain = |host: &str| {
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host).to_ascii_lowercase();
        let without = host.strip_suffix(":443").or_else(|| host.strip_suffix(":80"));
        without.map_or(host.clone(), str::to_owned)
    };
    plain(one) == plain(other)
}

fn missing() -> Refusal {
    Refusal::bad("the header Destination is missing: it says where to")
}

fn malformed() -> Refusal {
    Refusal::bad("the header Destination is no address: write http://HOST/PATH, or /PATH")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(raw: &str) -> Option<(String, bool)> {
        Target::parse(raw).ok().map(|target| (target.path.as_str().to_owned(), target.has_slash))
    }

    #[test]
    fn slashes_are_joined_and_the_last_one_is_told() {
        for (raw, path, slash) in [
            ("/", "/", true),
            ("//a///b", "/a/b", false),
            ("/a/b//", "/a/b", true),
            ("/a%20b", "/a b", false),
            ("/a%2Fb", "/a/b", false),
        ] {
            assert_eq!(target(raw), Some((path.to_owned(), slash)), "{raw}");
        }
        for bad in [
            "/a/../b",
            "/%2e%2e/etc",
            "/a%00",
            "/a%",
            "/.kist/x",
            "/.well-known/x",
            "/%2ewell-known/x",
            "*",
            "",
        ] {
            assert_eq!(target(bad), None, "{bad}");
        }
    }

    #[test]
    fn addresses_come_back() {
        for text in ["/", "/a b/ü%", "/a?b#c", "/x;y,z&\"<>'"] {
            let path = ArchivePath::new(text).unwrap();
            let written = href(&path, false);
            assert!(written.bytes().all(|b| b.is_ascii_graphic() && !b"<>\"?#&'".contains(&b)), "{written}");
            assert_eq!(Target::parse(&written).unwrap().path, path);
        }
        assert_eq!(href(&ArchivePath::new("/a").unwrap(), true), "/a/");
        assert_eq!(href(&ArchivePath::root(), true), "/");
    }

    #[test]
    fn another_host_is_another_server() {
        let request = |host: &str| {
            http::Request::builder().uri("/x").header(HOST, host).body(()).unwrap().into_parts().0
        };
        let parts = request("se.example.org:8443");
        let at = |text: &str| here(text, &parts).ok().flatten();
        assert_eq!(at("https://se.example.org:8443/a%20b?x").as_deref(), Some("/a%20b"));
        assert_eq!(at("davs://SE.example.org:8443/a").as_deref(), Some("/a"));
        assert_eq!(at("/a/b").as_deref(), Some("/a/b"));
        assert_eq!(at("https://se.example.org/a"), None);
        assert_eq!(at("https://other/a"), None);
        assert_eq!(at("ftp://se.example.org:8443/a"), None);
        assert!(here("//evil/a", &parts).is_err() && here("a/b", &parts).is_err());
        let parts = request("se.example.org");
        assert!(here("https://se.example.org:443/a", &parts).unwrap().is_some());
    }
}

//! The query of a request. Strict: unknown and repeated names are refused, and so is what is not UTF-8.

use std::str::FromStr;

use base::ArchivePath;

use entrance::Refusal;
use entrance::percent::{bad_path, decode};

/// The parameters of one request.
#[derive(Debug)]
pub(crate) struct Parameters(Vec<(&'static str, Vec<u8>)>);

impl Parameters {
    /// Reads a query string. A `+` is a space, as all form encoders write it; a plus sign is `%2B`.
    pub(crate) fn read(query: Option<&str>, known: &[&'static str]) -> Result<Self, Refusal> {
        let mut found: Vec<(&'static str, Vec<u8>)> = Vec::new();
        for pair in query.unwrap_or("").split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let Some(name) = known.iter().find(|known| **known == name) else {
                let known = known.join(", ");
                return Err(Refusal::bad(format!("unknown parameter '{name}'; there are: {known}")));
            };
            if found.iter().any(|(other, _)| other == name) {
                return Err(Refusal::bad(format!("the parameter '{name}' came more than once")));
            }
            let value = value.replace('+', " ");
            let value = decode(value.as_bytes()).ok_or_else(|| {
                Refusal::bad(format!("the parameter '{name}' has a '%' without two digits"))
            })?;
            found.push((name, value));
        }
        Ok(Parameters(found))
    }

    fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_slice())
    }

    /// A text, if it is there.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, Refusal> {
        self.bytes(name)
            .map(|value| std::str::from_utf8(value))
            .transpose()
            .map_err(|_| Refusal::bad(format!("the parameter '{name}' is not UTF-8")))
    }

    /// A path, if it is there.
    pub(crate) fn path(&self, name: &str) -> Result<Option<ArchivePath>, Refusal> {
        self.bytes(name).map(ArchivePath::from_bytes).transpose().map_err(bad_path)
    }

    /// A path that has to be there.
    pub(crate) fn needed_path(&self, name: &str) -> Result<ArchivePath, Refusal> {
        self.path(name)?.ok_or_else(|| Refusal::bad(format!("the parameter '{name}' is missing")))
    }

    /// A whole number, if it is there.
    pub(crate) fn number<N: FromStr>(&self, name: &str) -> Result<Option<N>, Refusal> {
        self.text(name)?
            .map(|text| {
                let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
                digits.then(|| text.parse().ok()).flatten()
            })
            .map(|value| {
                value.ok_or_else(|| Refusal::bad(format!("the parameter '{name}' is not such a number")))
            })
            .transpose()
    }

    /// The size of a page: `limit=`, lowered to `most`.
    pub(crate) fn limit(&self, default: usize, most: usize) -> Result<usize, Refusal> {
        match self.number::<usize>("limit")? {
            Some(0) => Err(Refusal::bad("limit=0 asks for nothing: give at least 1")),
            Some(limit) => Ok(limit.min(most)),
            None => Ok(default.min(most)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parameters_are_strict() {
        let read = |query| Parameters::read(Some(query), &["path", "limit"]);
        let good = read("path=%2Fa%20b+c%2B&limit=7").unwrap();
        assert_eq!(good.needed_path("path").unwrap().as_str(), "/a b c+");
        assert_eq!(good.limit(5, 6).unwrap(), 6);
        assert_eq!(read("").unwrap().limit(5, 6).unwrap(), 5);
        for bad in ["path=/a&path=/b", "depth=1", "path=%2", "path", "path=a", "path=%FF", "path=/a%00", ""] {
            assert!(read(bad).and_then(|p| p.needed_path("path")).is_err(), "{bad}");
        }
        for bad in ["limit=", "limit=0", "limit=-1", "limit=+1", "limit=1e3", "limit=99999999999999999999999"]
        {
            assert!(read(bad).and_then(|p| p.limit(5, 6)).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_query_is_read_or_refused(query in "\\PC{0,60}|(path|limit|=|&|%|[0-9a-f/.]){0,30}") {
            if let Ok(parameters) = Parameters::read(Some(&query), &["path", "limit"]) {
                let _ = parameters.needed_path("path");
                let _ = parameters.limit(1, 2);
            }
        }
    }
}

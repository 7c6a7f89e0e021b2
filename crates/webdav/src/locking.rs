//! `LOCK` and `UNLOCK`. The locks themselves are the authority's: they hold against every door.

use archive::{PutOptions, Stat};
use authority::{Bytes as _, LOCK_NOTE_BYTES_MAX, LOCK_SECONDS_MAX, Lock, LockRequest, Namespace};
use base::{ByteCount, Duration};
use bytes::Bytes;
use entrance::{Kind, Refusal};
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue, StatusCode};
use transfer::RequestBody;

use crate::answer::{Answer, Failure, empty, with_body};
use crate::context::Asked;
use crate::properties::active_locks;
use crate::propfind::Depth;
use crate::put::attributes;
use crate::tree::{of_parent, refuse_unsupported, small_body, there};
use crate::xml::{XML_TYPE, parse};

/// How long a lock lasts of which the client does not say it.
const SECONDS_DEFAULT: u64 = 600;

/// What a body of `LOCK` asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LockInfo {
    pub is_exclusive: bool,
    pub note: String,
}

pub(crate) async fn lock(asked: &Asked, body: RequestBody) -> Answer {
    refuse_unsupported(asked)?;
    let headers = &asked.parts.headers;
    let span = Duration::from_secs(timeout(headers));
    let body = small_body(asked, body).await?;
    if body.is_empty() {
        let lock = asked.run(move |asked: &Asked| refresh(asked, span)).await?;
        return Ok(told(StatusCode::OK, &lock));
    }
    let LockInfo { is_exclusive, note } = lock_info(&body)?;
    let is_deep = match Depth::of(headers)? {
        None | Some(Depth::Infinity) => true,
        Some(Depth::Zero) => false,
        Some(Depth::One) => return Err(Refusal::bad("LOCK has the Depth 0 or infinity").into()),
    };
    let path = asked.target.path.clone();
    let request = LockRequest { path, is_exclusive, is_deep, note, span };
    let (lock, made) = asked.run(move |asked: &Asked| take(asked, request)).await?;
    let mut response = told(if made { StatusCode::CREATED } else { StatusCode::OK }, &lock);
    if let Ok(token) = HeaderValue::from_str(&format!("<{}>", lock.token)) {
        response.headers_mut().insert(HeaderName::from_static("lock-token"), token);
    }
    Ok(response)
}

/// Takes a lock. Where nothing is, an empty file is made under it (RFC 4918, 7.3).
fn take(asked: &Asked, mut request: LockRequest) -> Result<(Lock, bool), Failure> {
    let found = there(asked, &request.path)?;
    // A file has nothing below it.
    request.is_deep &= matches!(found, Some(Stat::Directory(_)));
    if found.is_some() {
        return Ok((asked.engine.lock(request)?, false));
    }
    if asked.target.has_slash {
        return Err(Refusal::new(Kind::NotFound, "there is no directory to lock: make it with MKCOL").into());
    }
    let path = request.path.clone();
    if let Some((parent, _)) = path.split() {
        asked.engine.stat(&parent).map_err(of_parent)?;
    }
    let lock = asked.engine.lock(request)?;
    let call = &asked.call;
    let mut tokens = asked.conditions.tokens();
    tokens.push(lock.token.clone());
    let holding = asked.context.guard.enter_with(&call.principal, call.peer, tokens);
    let options = PutOptions {
        length: Some(ByteCount(0)),
        attributes: attributes(&HeaderMap::new())?,
        keep_existing: true,
        who: Some(call.principal.name.clone()),
        ..PutOptions::default()
    };
    match holding.begin_put(&path, options).and_then(|upload| upload.finish()) {
        Ok(_) => Ok((lock, true)),
        Err(error) => {
            let _ = asked.engine.unlock(&path, &lock.token);
            Err(of_parent(error))
        }
    }
}

fn refresh(asked: &Asked, span: Duration) -> Result<Lock, Failure> {
    if asked.conditions.tokens().is_empty() {
        let detail = "LOCK without a body refreshes a lock: send its token as If: (<TOKEN>)";
        return Err(Refusal::bad(detail).into());
    }
    Ok(asked.engine.refresh_lock(&asked.target.path, span)?)
}

pub(crate) async fn unlock(asked: &Asked) -> Answer {
    refuse_unsupported(asked)?;
    let header = entrance::headers::single(&asked.parts.headers, &HeaderName::from_static("lock-token"))?;
    let token = header.and_then(|value| value.to_str().ok()).map(str::trim);
    let token = token.and_then(|token| token.strip_prefix('<')?.strip_suffix('>'));
    let Some(token) = token.map(str::to_owned) else {
        return Err(Refusal::bad("UNLOCK needs the header Lock-Token: <TOKEN>").into());
    };
    let given_back = move |asked: &Asked| -> Result<(), Failure> {
        asked.engine.stat(&asked.target.path)?;
        let unlocked = asked.engine.unlock(&asked.target.path, &token);
        unlocked.map_err(|_| Failure::condition(StatusCode::CONFLICT, "lock-token-matches-request-uri"))
    };
    asked.run(given_back).await?;
    Ok(empty(StatusCode::NO_CONTENT))
}

/// The lock as `lockdiscovery` tells it.
fn told(status: StatusCode, lock: &Lock) -> http::Response<transfer::ReplyBody> {
    let active = active_locks(&[(lock.clone(), lock.span)]);
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:prop xmlns:D=\"DAV:\"><D:lockdiscovery>{active}\
         </D:lockdiscovery></D:prop>\n"
    );
    with_body(status, XML_TYPE, text)
}

/// Reads what lock is asked for.
pub(crate) fn lock_info(body: &Bytes) -> Result<LockInfo, Refusal> {
    let root =
        parse(body).map_err(|error| Refusal::bad(format!("the body cannot be read as XML: {error}")))?;
    if !root.name.is_dav("lockinfo") {
        return Err(Refusal::bad("the body is no lockinfo of the namespace DAV:"));
    }
    if root.dav("locktype").and_then(|kind| kind.dav("write")).is_none() {
        return Err(Refusal::bad("there are write locks alone: the locktype is write"));
    }
    let scope = root.dav("lockscope");
    let is = |name| scope.and_then(|scope| scope.dav(name)).is_some();
    let is_exclusive = match (is("exclusive"), is("shared")) {
        (true, false) => true,
        (false, true) => false,
        _ => return Err(Refusal::bad("the lockscope is exclusive or shared")),
    };
    let note = root.dav("owner").map(|owner| owner.inner()).unwrap_or_default();
    if note.len() > LOCK_NOTE_BYTES_MAX {
        return Err(Refusal::bad(format!("the owner has more than {LOCK_NOTE_BYTES_MAX} bytes")));
    }
    Ok(LockInfo { is_exclusive, note })
}

/// The seconds of the header `Timeout`: the first that is understood.
pub(crate) fn timeout(headers: &HeaderMap) -> u64 {
    let text = headers.get("timeout").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let seconds = |word: &str| {
        let word = word.trim();
        if word.eq_ignore_ascii_case("infinite") {
            return Some(LOCK_SECONDS_MAX);
        }
        let digits = word.strip_prefix("Second-").or_else(|| word.strip_prefix("second-"))?;
        digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().unwrap_or(LOCK_SECONDS_MAX))
    };
    text.split(',').find_map(seconds).unwrap_or(SECONDS_DEFAULT).clamp(1, LOCK_SECONDS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_bodies_are_read() {
        let read = |text: &'static str| lock_info(&Bytes::from_static(text.as_bytes()));
        let good = read(
            "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:shared/></D:lockscope><D:locktype><D:write/>\
             </D:locktype>\
             <D:owner><D:href>me</D:href></D:owner></D:lockinfo>",
        );
        let note = "<href xmlns=\"DAV:\">me</href>".to_owned();
        assert_eq!(good.unwrap(), LockInfo { is_exclusive: false, note });
        for bad in [
            "",
            "<lockinfo/>",
            "<lockinfo xmlns='DAV:'><lockscope><shared/><exclusive/></lockscope><locktype><write/></locktype>\
             </lockinfo>",
            "<lockinfo xmlns='DAV:'><lockscope><shared/></lockscope><locktype><read/></locktype></lockinfo>",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn timeouts_are_bounded() {
        for (text, seconds) in [
            ("", SECONDS_DEFAULT),
            ("Second-10", 10),
            ("Infinite, Second-10", LOCK_SECONDS_MAX),
            ("Extended, Second-7", 7),
            ("Second-0", 1),
            ("Second-99999999999999999999999", LOCK_SECONDS_MAX),
            ("Second--5", SECONDS_DEFAULT),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("timeout", text.parse().unwrap());
            assert_eq!(timeout(&headers), seconds, "{text}");
        }
    }
}

//! What is put right in the documents that s3s writes, before they are sent.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use s3s::{Body, HttpResponse};

/// What an error says of its request.
pub(crate) struct Told {
    /// The path of the request, decoded.
    pub resource: String,
    /// The number of the request.
    pub id: String,
    /// The operation, if it came so far.
    pub operation: Option<&'static str>,
}

/// The server that answers; S3 has an opaque text here.
const HOST: &str = "kist";
/// The end of the document of an error.
const END: &str = "</Error>";

/// Puts the documents right: errors say of which request and of what they are, ETags among attributes have no
/// quotes, and a character that XML cannot carry as it is becomes a reference, as in S3.
pub(crate) fn finish(mut response: HttpResponse, told: &Told) -> HttpResponse {
    name_request(response.headers_mut(), &told.id);
    let is_xml =
        response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes() == b"application/xml");
    // An object may be XML, too; its bytes are its own.
    let is_error = !response.status().is_success();
    if !is_xml || !is_error && matches!(told.operation, Some("GetObject") | None) {
        return response;
    }
    let Some(bytes) = response.body().bytes() else { return response };
    let Ok(mut text) = String::from_utf8(bytes.to_vec()) else { return response };
    if is_error && let Some(head) = text.strip_suffix(END) {
        let resource = escaped(&told.resource);
        let id = &told.id;
        text = format!(
            "{head}<Resource>{resource}</Resource><RequestId>{id}</RequestId><HostId>{HOST}</HostId>{END}"
        );
    }
    if told.operation == Some("GetObjectAttributes") && !is_error {
        text = text.replace("<ETag>&quot;", "<ETag>").replace("&quot;</ETag>", "</ETag>");
        text = text.replace("<ETag>\"", "<ETag>").replace("\"</ETag>", "</ETag>");
    }
    let text = referenced(text);
    response.headers_mut().remove(CONTENT_LENGTH);
    *response.body_mut() = Body::from(Bytes::from(text));
    response
}

fn name_request(headers: &mut HeaderMap, id: &str) {
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert("x-amz-request-id", id);
    }
    headers.insert("x-amz-id-2", HeaderValue::from_static(HOST));
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Whether a character cannot stand in XML, or is read as another one (a carriage return).
fn needs_reference(c: char) -> bool {
    matches!(c, '\0'..='\u{8}' | '\u{B}'..='\u{1F}' | '\u{FFFE}' | '\u{FFFF}')
}

/// Control characters as references. s3s writes none itself: they are in keys and names.
fn referenced(text: String) -> String {
    if !text.contains(needs_reference) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 64);
    for c in text.chars() {
        if needs_reference(c) {
            out.push_str(&format!("&#x{:X};", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, text: &str) -> HttpResponse {
        let mut response = HttpResponse::new(Body::from(text.to_owned()));
        *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
        response
    }

    fn finished(status: u16, operation: Option<&'static str>, text: &str) -> String {
        let told = Told { resource: "/b/a&b".into(), id: "7".into(), operation };
        let response = finish(answer(status, text), &told);
        String::from_utf8(response.body().bytes().unwrap().to_vec()).unwrap()
    }

    #[test]
    fn documents_are_put_right_and_objects_left_alone() {
        let error = finished(404, Some("GetObject"), "<Error><Code>X</Code></Error>");
        let rest = "<Resource>/b/a&amp;b</Resource><RequestId>7</RequestId><HostId>kist</HostId></Error>";
        assert_eq!(error, format!("<Error><Code>X</Code>{rest}"));
        let listed = finished(200, Some("ListObjects"), "<Key>a\u{1}\r\nb\u{FFFF}</Key>");
        assert_eq!(listed, "<Key>a&#x1;&#xD;\nb&#xFFFF;</Key>");
        let object = "<Error>\u{1}</Error>";
        assert_eq!(finished(200, Some("GetObject"), object), object);
        let quoted = "<ETag>&quot;ab&quot;</ETag>";
        assert_eq!(finished(200, Some("GetObjectAttributes"), quoted), "<ETag>ab</ETag>");
        assert_eq!(finished(200, Some("ListObjects"), quoted), quoted);
    }
}

//! Macaroons are asked for at the address of the file or directory that they are for, by `POST`.

use base::Duration;
use entrance::iso_duration;
use entrance::{Kind, Object, Refusal};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use identity::MacaroonRequest;
use serde::{Deserialize, Serialize};
use transfer::RequestBody;

use crate::address::{href, own_host};
use crate::answer::{Answer, Failure, with_body};
use crate::context::Asked;
use crate::tree::{small_body, there};

/// The type of the body that asks for one.
const REQUEST: &str = "application/macaroon-request";

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Request {
    caveats: Vec<String>,
    validity: Option<String>,
}

#[derive(Serialize)]
struct Reply {
    macaroon: String,
    uri: Addresses,
}

/// The addresses with and without the macaroon, as dCache tells them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Addresses {
    target_with_macaroon: String,
    base_with_macaroon: String,
    target: String,
    base: String,
}

pub(crate) async fn post(asked: &Asked, body: RequestBody) -> Answer {
    let kind = asked.parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(REQUEST) {
        return Err(Refusal::new(Kind::MediaType, format!("POST takes a body of the type {REQUEST}")).into());
    }
    let body = small_body(asked, body).await?;
    let Object(request) = if body.is_empty() {
        Object(Request::default())
    } else {
        serde_json::from_slice(&body)
            .map_err(|error| Refusal::bad(format!("the body cannot be read: {error}")))?
    };
    let validity = request.validity.as_deref().map(|text| {
        let span = iso_duration::parse(text).filter(|span| *span > Duration::ZERO);
        span.ok_or_else(|| {
            Refusal::bad(format!("the validity '{}' is no duration such as PT1H", short(text)))
        })
    });
    let path = asked.target.path.clone();
    let wanted = MacaroonRequest { path, caveats: request.caveats, validity: validity.transpose()? };
    let (macaroon, is_directory) = asked
        .run(move |asked: &Asked| -> Result<(String, bool), Failure> {
            let call = &asked.call;
            let made = asked.context.guard.authority().macaroon(&call.principal, call.peer, &wanted);
            let macaroon = made.map_err(Refusal::from)?;
            let found = there(asked, &asked.target.path).unwrap_or_default();
            Ok((macaroon, matches!(found, Some(archive::Stat::Directory(_)))))
        })
        .await?;
    let scheme =
        if asked.parts.extensions.get::<authority::Encrypted>().is_some() { "https" } else { "http" };
    let host = own_host(&asked.parts.uri, &asked.parts.headers).unwrap_or_default();
    let base = format!("{scheme}://{host}/");
    let target = format!("{scheme}://{host}{}", href(&asked.target.path, is_directory));
    let uri = Addresses {
        target_with_macaroon: format!("{target}?authz={macaroon}"),
        base_with_macaroon: format!("{base}?authz={macaroon}"),
        target,
        base,
    };
    let json = serde_json::to_vec(&Reply { macaroon, uri }).unwrap_or_default();
    Ok(with_body(StatusCode::OK, "application/json", json))
}

fn short(text: &str) -> String {
    text.chars().take(64).collect()
}

//! The description of `/api/v1` for programs: made from a table of its addresses and from the types of
//! the crate `wire`, served at `/api/v1/openapi.json` and kept in `docs/reference/openapi.json`.

mod endpoint;
mod table;

use axum::Json;
use utoipa::openapi::path::{Operation, OperationBuilder, PathsBuilder};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, InfoBuilder, License, OpenApi, OpenApiBuilder, PathItem, Paths, Ref,
    ResponseBuilder,
};

use endpoint::{Endpoint, Shape};
use wire::Problem;

/// Where it is served, below `/api/v1`.
pub(crate) const ADDRESS: &str = "/openapi.json";
/// The name of the only way to say who one is.
const BEARER: &str = "bearer";

/// `GET /api/v1/openapi.json`.
pub(crate) async fn openapi() -> Json<OpenApi> {
    Json(document())
}

/// The document.
#[must_use]
pub fn document() -> OpenApi {
    let endpoints = table::endpoints();
    let mut components = ComponentsBuilder::new().security_scheme(
        BEARER,
        SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build()),
    );
    let mut schemas = Vec::new();
    for shape in endpoints.iter().flat_map(|endpoint| [endpoint.body, endpoint.reply]).flatten() {
        shape.collect(&mut schemas);
    }
    Shape::of::<Problem>().collect(&mut schemas);
    components = components.schemas_from_iter(schemas);
    let info = InfoBuilder::new()
        .title("Kist")
        .version("v1")
        .description(Some(
            "The administration of an archive. Sizes are bytes, times are UTC in RFC 3339, spans are \
             seconds. Fields are only ever added; clients ignore those that they do not know.",
        ))
        .license(Some(License::new("Apache-2.0")));
    OpenApiBuilder::new()
        .info(info.build())
        .paths(paths(&endpoints))
        .components(Some(components.build()))
        .security(Some([SecurityRequirement::new(BEARER, Vec::<String>::new())]))
        .build()
}

fn paths(endpoints: &[Endpoint]) -> Paths {
    let mut paths = PathsBuilder::new();
    for endpoint in endpoints {
        let item = PathItem::new(endpoint.method.clone(), operation(endpoint));
        paths = paths.path(format!("/api/v1{}", endpoint.path), item);
    }
    paths.build()
}

fn operation(endpoint: &Endpoint) -> Operation {
    let mut success = ResponseBuilder::new().description(endpoint.summary);
    if let Some(shape) = &endpoint.reply {
        success =
            success.content("application/json", ContentBuilder::new().schema(Some(shape.schema())).build());
    }
    let problem = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    let refused = ResponseBuilder::new()
        .description("Refused: why, and what to do")
        .content("application/problem+json", problem);
    let mut operation = OperationBuilder::new()
        .summary(Some(endpoint.summary))
        .operation_id(Some(endpoint.id()))
        .response(endpoint.status.to_string(), success.build())
        .response("default", refused.build());
    for parameter in endpoint.parameters() {
        operation = operation.parameter(parameter);
    }
    if let Some(body) = &endpoint.body {
        operation = operation.request_body(Some(body.as_body()));
    }
    operation.build()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// The committed document. `KIST_BLESS=1 cargo test -p door openapi` writes it anew.
    const COMMITTED: &str = "../../docs/reference/openapi.json";

    #[test]
    fn the_committed_document_is_this_one() {
        let made = serde_json::to_string_pretty(&document()).unwrap() + "\n";
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(COMMITTED);
        if std::env::var_os("KIST_BLESS").is_some() {
            std::fs::write(&path, &made).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap();
        let differs = made.lines().zip(committed.lines()).position(|(made, there)| made != there);
        assert_eq!(differs, None, "first line that differs, from 0: KIST_BLESS=1 cargo test -p door openapi");
        assert_eq!(made.len(), committed.len());
    }

    /// Every address of the router is described, with its methods, and no other.
    #[test]
    fn the_router_has_these_addresses() {
        let router = include_str!("../router.rs");
        let (_, api) = router.split_once("let api = Router::new()").unwrap();
        let (api, _) = api.split_once(';').unwrap();
        let mut routed = BTreeSet::new();
        for route in api.split(".route(").skip(1) {
            let (path, handlers) = route.split_once(',').unwrap();
            let path = path.trim().trim_matches('"');
            if path == "openapi::ADDRESS" {
                continue;
            }
            for method in ["get", "post", "put", "delete"] {
                if handlers.contains(&format!("{method}(")) {
                    routed.insert(format!("{method} {path}"));
                }
            }
        }
        assert!(routed.len() > 40, "{} addresses were found", routed.len());
        let described: BTreeSet<_> = table::endpoints().iter().map(Endpoint::title).collect();
        assert_eq!(routed, described);
    }

    #[test]
    fn references_resolve_and_ids_are_unique() {
        let document = serde_json::to_value(document()).unwrap();
        let text = document.to_string();
        for reference in text.split("\"#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(document["components"]["schemas"].get(name).is_some(), "{name}");
        }
        let ids: BTreeSet<_> = table::endpoints().iter().map(Endpoint::id).collect();
        assert_eq!(ids.len(), table::endpoints().len());
    }
}

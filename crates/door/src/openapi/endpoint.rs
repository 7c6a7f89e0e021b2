//! One address with one method.

use std::borrow::Cow;

use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::schema::{ArrayBuilder, Schema};
use utoipa::openapi::{ContentBuilder, HttpMethod, ObjectBuilder, Ref, RefOr, Required, Type};
use utoipa::{PartialSchema, ToSchema};

type Schemas = Vec<(String, RefOr<Schema>)>;

/// What a body looks like.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    name: fn() -> Cow<'static, str>,
    own: fn() -> RefOr<Schema>,
    within: fn(&mut Schemas),
    is_list: bool,
}

impl Shape {
    pub(super) fn of<T: ToSchema + PartialSchema>() -> Self {
        Shape { name: T::name, own: T::schema, within: T::schemas, is_list: false }
    }

    pub(super) fn list<T: ToSchema + PartialSchema>() -> Self {
        Shape { is_list: true, ..Shape::of::<T>() }
    }

    /// Adds what it consists of.
    pub(super) fn collect(&self, schemas: &mut Schemas) {
        schemas.push(((self.name)().into_owned(), (self.own)()));
        (self.within)(schemas);
    }

    /// A reference to it.
    pub(super) fn schema(&self) -> RefOr<Schema> {
        let one = Ref::from_schema_name((self.name)().into_owned());
        if self.is_list { ArrayBuilder::new().items(one).build().into() } else { one.into() }
    }

    pub(super) fn as_body(&self) -> RequestBody {
        let content = ContentBuilder::new().schema(Some(self.schema())).build();
        RequestBodyBuilder::new().content("application/json", content).required(Some(Required::True)).build()
    }
}

/// What a parameter of the query is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Number,
}

/// A parameter of the query.
#[derive(Clone, Copy)]
pub(super) struct Query {
    pub name: &'static str,
    pub kind: Kind,
    pub needed: bool,
    pub meaning: &'static str,
}

/// One address with one method.
#[derive(Clone)]
pub(super) struct Endpoint {
    pub method: HttpMethod,
    pub path: &'static str,
    pub summary: &'static str,
    pub query: &'static [Query],
    pub body: Option<Shape>,
    /// The status of success.
    pub status: u16,
    pub reply: Option<Shape>,
}

impl Endpoint {
    pub(super) fn get(path: &'static str, summary: &'static str, reply: Shape) -> Self {
        Endpoint {
            method: HttpMethod::Get,
            path,
            summary,
            query: &[],
            body: None,
            status: 200,
            reply: Some(reply),
        }
    }

    /// A `POST` without a body in or out.
    pub(super) fn post(path: &'static str, summary: &'static str, status: u16) -> Self {
        Endpoint { method: HttpMethod::Post, path, summary, query: &[], body: None, status, reply: None }
    }

    pub(super) fn with(mut self, body: Shape) -> Self {
        self.body = Some(body);
        self
    }

    pub(super) fn replies(mut self, reply: Shape) -> Self {
        self.reply = Some(reply);
        self
    }

    pub(super) fn query(mut self, query: &'static [Query]) -> Self {
        self.query = query;
        self
    }

    fn verb(&self) -> &'static str {
        match self.method {
            HttpMethod::Get => "get",
            HttpMethod::Put => "put",
            HttpMethod::Delete => "delete",
            _ => "post",
        }
    }

    /// As `get /tapes/{vid}`.
    #[cfg(test)]
    pub(super) fn title(&self) -> String {
        format!("{} {}", self.verb(), self.path)
    }

    /// As `getTapesVid`.
    pub(super) fn id(&self) -> String {
        let mut id = self.verb().to_owned();
        for part in self.path.split(['/', '{', '}', '-']).filter(|part| !part.is_empty()) {
            let (first, rest) = part.split_at(1);
            id.push_str(&first.to_ascii_uppercase());
            id.push_str(rest);
        }
        id
    }

    pub(super) fn parameters(&self) -> Vec<Parameter> {
        let within = self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let parameter = |name: &str, place, needed, kind, meaning: Option<&str>| {
            let kind = match kind {
                Kind::Text => Type::String,
                Kind::Number => Type::Integer,
            };
            ParameterBuilder::new()
                .name(name)
                .parameter_in(place)
                .required(if needed { Required::True } else { Required::False })
                .description(meaning)
                .schema(Some(ObjectBuilder::new().schema_type(kind).build()))
                .build()
        };
        let mut all: Vec<_> =
            within.map(|name| parameter(name, ParameterIn::Path, true, Kind::Text, None)).collect();
        let query = self.query.iter();
        all.extend(query.map(|q| parameter(q.name, ParameterIn::Query, q.needed, q.kind, Some(q.meaning))));
        all
    }
}

//! What all doors that speak HTTP share beside bodies of files: who comes in with a request, what its headers
//! say, and refusals in words. S3 has signatures and a language of its own for errors, and shares none of it.

mod body;
mod call;
mod credential;
mod enter;
pub mod headers;
pub mod iso_duration;
mod object;
pub mod percent;
mod plan;
mod problem;
mod upload;

pub use body::whole;
pub use call::{AuditLine, Call};
pub use credential::{NotIn, Ways, come_in};
pub use enter::{enter, uri_fits};
pub use object::Object;
pub use plan::{Plan, entity_tag, is_of_this};
pub use problem::{Kind, Refusal, unsatisfied};
pub use upload::{Incoming, present, refuse_endless, refuse_parts, store};

//! All addresses.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};

use crate::access;
use crate::admin;
use crate::clock;
use crate::data::data;
use crate::disks;
use crate::foresee;
use crate::guard::{HEALTH, guard};
use crate::keys;
use crate::locks;
use crate::machine_health;
use crate::metrics;
use crate::openapi;
use crate::protection;
use crate::removals;
use crate::report;
use crate::shared::Shared;
use crate::tapes;
use crate::upkeep;
use crate::usage_report;
use crate::works;
use entrance::{Kind, Refusal};

/// The routes of one door.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    let api = Router::new()
        .route("/stat", get(admin::stat))
        .route("/list", get(admin::list))
        .route("/mkdir", post(admin::make_directory))
        .route("/rename", post(admin::rename))
        .route("/removals", get(removals::removals).post(removals::remove))
        .route("/removals/{id}", get(removals::removal))
        .route("/owner", post(access::set_owner))
        .route("/acl", get(access::acl).post(access::set_acl))
        .route("/quotas", get(access::quotas).post(access::set_quota))
        .route("/quotas/remove", post(access::remove_quota))
        .route("/requests", get(admin::requests).post(admin::stage))
        .route("/requests/{id}", get(admin::request))
        .route("/requests/{id}/files", get(admin::request_files))
        .route("/requests/{id}/cancel", post(admin::cancel))
        .route("/requests/{id}/priority", post(admin::prioritise))
        .route("/requests/{id}/release", post(admin::release))
        .route("/works", get(works::works))
        .route("/works/{id}", get(works::work))
        .route("/evict", post(admin::evict))
        .route("/why", get(foresee::why))
        .route("/tapes", get(admin::tapes))
        .route("/tapes/{vid}", get(admin::tape).post(admin::set_tape))
        .route("/tapes/verify", post(tapes::verify_all))
        .route("/tapes/{vid}/verify", get(tapes::check).post(tapes::verify))
        .route("/tapes/{vid}/verify/stop", post(tapes::stop_check))
        .route("/tapes/{vid}/repack", get(tapes::repack_progress).post(tapes::repack))
        .route("/tapes/{vid}/reclaim", post(tapes::reclaim))
        .route("/tapes/{vid}/export", post(tapes::export))
        .route("/tapes/{vid}/add", post(tapes::add))
        .route("/tapes/{vid}/retire", post(tapes::retire))
        .route("/library/import", post(tapes::import))
        .route("/library/inventory", post(tapes::inventory))
        .route("/report/tape", get(report::tape))
        .route("/report/usage", get(usage_report::usage))
        .route("/drives/{name}/up", post(admin::drive_up))
        .route("/drives/{name}/down", post(tapes::drive_down))
        .route("/drives/{name}/clean", post(tapes::clean_drive))
        .route("/drives", get(admin::drives))
        .route("/drives/{name}", get(machine_health::drive))
        .route("/report/health", get(machine_health::report))
        .route("/pool", get(admin::pool))
        .route("/pool/quarantine", get(protection::quarantine))
        .route("/pool/quarantine/end", post(protection::end_quarantine))
        .route("/backup", get(protection::backup))
        .route("/backup/snapshot", post(protection::snapshot))
        .route("/clock", get(clock::clock))
        .route("/clock/accept", post(clock::accept))
        .route("/pool/health", get(upkeep::pool_health))
        .route("/pool/rebuild", post(upkeep::rebuild))
        .route("/pool/rebalance", post(upkeep::rebalance))
        .route("/pool/rebalance/end", post(upkeep::rebalance_end))
        .route("/pool/recode", post(upkeep::recode))
        .route("/pool/recode/end", post(upkeep::recode_end))
        .route("/pool/drives", post(upkeep::drive_add))
        .route("/pool/disks", get(disks::watch).post(disks::found))
        .route("/pool/drives/{id}/light", post(disks::light))
        .route("/pool/drives/{id}/take-over", post(disks::take_over))
        .route("/pool/drives/{id}/lost", post(upkeep::drive_lost))
        .route("/pool/drives/{id}/drain", post(upkeep::drive_drain))
        .route("/pool/drives/{id}/keep", post(upkeep::drive_keep))
        .route("/pool/drives/{id}/remove", post(upkeep::drive_remove))
        .route("/pool/drives/{id}/replace", post(upkeep::drive_replace))
        .route("/scrub", get(upkeep::scrub).post(upkeep::scrub_now))
        .route("/verify", get(upkeep::verify))
        .route("/verify/catalogue", post(upkeep::verify_catalogue))
        .route("/keys", get(keys::list).post(keys::create))
        .route("/keys/{id}/remove", post(keys::remove))
        .route("/macaroons/revoke", post(keys::revoke_macaroons))
        .route("/keys/{id}/disable", post(keys::disable))
        .route("/keys/{id}/enable", post(keys::enable))
        .route("/locks", get(locks::list))
        .route("/locks/remove", post(locks::remove))
        .route("/classes", get(admin::classes))
        .route("/queue", get(admin::queue))
        .route("/status", get(admin::status))
        .route("/migrate", post(admin::migrate))
        .route(openapi::ADDRESS, get(openapi::openapi));
    Router::new()
        .route("/data", any(data))
        .route("/data/", any(data))
        .route("/data/{*path}", any(data))
        .nest("/api/v1", api)
        .route(HEALTH, get(health))
        .route(metrics::ADDRESS, get(metrics::metrics))
        .fallback(|uri: Uri| async move {
            Refusal::new(
                Kind::NotFound,
                format!("there is nothing at {}: see /data/PATH and /api/v1", uri.path()),
            )
        })
        .method_not_allowed_fallback(|| async {
            Refusal::new(Kind::Method, "this address does not have that method: see the header Allow")
        })
        .layer(from_fn_with_state(shared.clone(), guard))
        .layer(from_fn_with_state(shared.counts.clone(), metrics::watch_native))
        .with_state(shared)
}

/// Whether changes are taken; 503 with a line for each reason why not. The engine looks at most once a
/// second.
async fn health(State(shared): State<Arc<Shared>>) -> Response {
    let problems = shared.authority.health();
    if problems.is_empty() {
        return "ok\n".into_response();
    }
    let lines: String = problems.iter().map(|problem| format!("{}: {problem}\n", problem.word())).collect();
    (StatusCode::SERVICE_UNAVAILABLE, lines).into_response()
}

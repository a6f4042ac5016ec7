//! What is asked under `/v1/holds`: holds are settled, cancelled and extended by their ids.

use ratekeeper::port::HoldState;

use super::context::HttpTransport;
use super::plan_body::PlanBody;
use super::problem::Problem;
use super::query::HoldQuery;
use super::reply::{self, HttpReply};
use crate::request::{HoldFields, HoldVerb};
use crate::responder::WireAnswer;

/// Answers `POST /v1/holds/{id}/settle`.
pub(super) async fn settle(
    http: &HttpTransport,
    id: &str,
    body: &PlanBody<'_>,
) -> Result<HttpReply, Problem> {
    let units = body.units()?;
    answer(http, HoldVerb::Settle, body.held(id, &units), body.each).await
}

/// Answers `POST /v1/holds/{id}/extend`.
pub(super) async fn extend(
    http: &HttpTransport,
    id: &str,
    body: &PlanBody<'_>,
) -> Result<HttpReply, Problem> {
    let units = body.units()?;
    answer(http, HoldVerb::Extend, body.held(id, &units), body.each).await
}

/// Answers `DELETE /v1/holds/{id}?key=…`.
pub(super) async fn cancel(http: &HttpTransport, id: &str, query: &HoldQuery) -> Result<HttpReply, Problem> {
    let fields = HoldFields { key: &query.key, id: id.as_bytes(), ..HoldFields::default() };
    answer(http, HoldVerb::Cancel, fields, query.each).await
}

async fn answer(
    http: &HttpTransport,
    verb: HoldVerb,
    fields: HoldFields<'_>,
    each: bool,
) -> Result<HttpReply, Problem> {
    match http.responder.answer(&fields.check(verb)?).await? {
        // It is what became of the hold, and no error: it was counted already.
        WireAnswer::Changed(outcome) if outcome.state == HoldState::Gone => Ok(Problem::gone().into_reply()),
        WireAnswer::Changed(outcome) => Ok(reply::changed(&outcome, each)),
        _ => Err(Problem::internal()),
    }
}

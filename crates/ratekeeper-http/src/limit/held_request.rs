//! What a request holds while it is served.

use http::HeaderMap;

use super::Upgrade;
use super::charge_policy::ChargePolicy;
use super::connection_hold::ConnectionHold;
use super::method_kind::MethodKind;
use super::permits::InFlightPermit;
use super::policy_headers::LimitReport;
use super::refundable_charge::RefundableCharge;
use super::request_hold::RequestHold;

/// What a request holds until the body of its response has ended: a permit, which comes back then, and a charge or an
/// estimate, which is settled then. Dropped before, these are refunded or kept as their policies say.
///
/// Most limits have no permits, and charge on arrival: their requests hold nothing.
#[derive(Default)]
pub(crate) struct HeldRequest {
    pub(crate) permit: Option<InFlightPermit>,
    pub(crate) charge: Option<RefundableCharge>,
    pub(crate) hold: Option<RequestHold>,
    /// What the response says of the permit.
    pub(crate) in_flight: Option<LimitReport>,
    /// Of a request with a permit or a hold that asks for an upgrade.
    pub(crate) upgrade: Option<Upgrade>,
    pub(crate) method: MethodKind,
    /// How many bytes of the body are still to come, if that is known.
    left: Option<u64>,
}

impl HeldRequest {
    pub(crate) fn is_empty(&self) -> bool {
        self.permit.is_none() && self.charge.is_none() && self.hold.is_none()
    }

    /// Notes that the connection leaves HTTP: all of the answer is there. The connection has the permit and the hold from now
    /// on, if it can be told when it ends; otherwise they last until the body is dropped, because nobody knows for how long
    /// the connection lasts, but that it lasts longer than its body.
    pub(crate) fn upgraded(&mut self) {
        if let Some(upgrade) = self.upgrade.take() {
            upgrade.hold(ConnectionHold { _permit: self.permit.take(), _hold: self.hold.take() });
        }
        if let Some(charge) = self.charge.take() {
            charge.keep();
        }
    }

    /// Notes that the request was answered, and how many bytes are to come, after which nobody asks for more.
    pub(crate) fn answered(&mut self, length: Option<u64>) {
        self.upgrade = None;
        self.left = length;
        self.end_if_complete();
    }

    /// Notes that so many bytes were sent.
    pub(crate) fn sent(&mut self, bytes: usize) {
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(bytes as u64);
            self.end_if_complete();
        }
    }

    fn end_if_complete(&mut self) {
        // A gRPC call that is charged on failure says after its body whether it failed, and others what they have spent.
        let reads_trailers = self.hold.as_ref().is_some_and(RequestHold::reads_trailers);
        if self.left == Some(0) && !reads_trailers && !self.waits_for_trailers() {
            self.end();
        }
    }

    /// Notes that the body has ended: the request was answered to the end. One that is charged on failure has not said
    /// that it succeeded.
    pub(crate) fn end(&mut self) {
        self.permit = None;
        self.hold = None;
        if let Some(charge) = self.charge.take() {
            charge.keep();
        }
    }

    /// Notes what the trailers say was spent.
    pub(crate) fn trailers(&mut self, trailers: &mut HeaderMap) {
        if let Some(hold) = &mut self.hold {
            hold.trailers(trailers);
        }
    }

    /// Notes that a gRPC call has said in its trailers that it succeeded.
    pub(crate) fn succeeded(&mut self) {
        if self.waits_for_trailers()
            && let Some(charge) = self.charge.take()
        {
            charge.give_back();
        }
    }

    /// Notes that the body has failed.
    pub(crate) fn fail(&mut self) {
        *self = HeldRequest::default();
    }

    fn waits_for_trailers(&self) -> bool {
        self.charge.as_ref().is_some_and(|charge| charge.policy() == ChargePolicy::OnFailure)
    }
}

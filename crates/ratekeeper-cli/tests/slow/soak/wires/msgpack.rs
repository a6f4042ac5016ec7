//! MessagePack, by the Rust client.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use ratekeeper_client::{
    Client, ClientError, PlanRequest, RemoteAmounts, RemoteHoldState, RemoteOutcome, RemoteQuota,
    RemoteRuling,
};

use super::{Answer, Ask, OWN_QUOTA, Told, broken};

pub(crate) struct Msgpack(Client);

impl Msgpack {
    pub(crate) async fn connect(address: SocketAddr, timeout: Duration) -> io::Result<Self> {
        let client = Client::builder().connections(1).timeout(timeout).connect(address).await;
        Ok(Msgpack(client.map_err(broken)?))
    }

    pub(crate) async fn ask(&mut self, ask: &Ask) -> io::Result<Told> {
        let client = &self.0;
        match ask.clone() {
            Ask::Acquire { key, plan } => {
                told(client.acquire_plans(&PlanRequest::new(key, [plan])).await, answer)
            }
            Ask::Peek { key, plan } => told(client.peek_plans(&PlanRequest::new(key, [plan])).await, answer),
            Ask::Throttle { key } => {
                let [burst, count, period] = OWN_QUOTA;
                let quota =
                    RemoteQuota::per(count.into(), Duration::from_secs(period.into())).burst(burst.into());
                told(client.acquire(key, quota, 1).await, |decision| Answer {
                    allowed: decision.allowed,
                    ..Answer::default()
                })
            }
            Ask::Refund { key, plan, age_ms } => {
                let age = Duration::from_millis(age_ms);
                told(client.refund_plans(&PlanRequest::new(key, [plan]), age).await, answer)
            }
            Ask::Hold { key, plan, tokens, lease_ms } => {
                let request = PlanRequest::new(key, [plan]).amounts(RemoteAmounts::unit("tokens", tokens));
                told(client.hold(&request, Duration::from_millis(lease_ms)).await, |hold| Answer {
                    id: hold.id.map(|id| id.to_string()),
                    ..answer(hold.ruling)
                })
            }
            Ask::Settle { key, id, tokens } => {
                let spent = RemoteAmounts::unit("tokens", tokens);
                told(client.settle(key, id.parse().map_err(broken)?, &spent).await, outcome)
            }
            Ask::Cancel { key, id } => told(client.cancel(key, id.parse().map_err(broken)?).await, outcome),
            Ask::Envoy { .. } => unreachable!("Envoy does not speak it"),
        }
    }
}

/// What the server would not decide is told by it; everything else has ended the connection.
fn told<T>(result: Result<T, ClientError>, read: impl FnOnce(T) -> Answer) -> io::Result<Told> {
    match result {
        Ok(value) => Ok(Ok(read(value))),
        Err(ClientError::Refused(why)) => Ok(Err(why)),
        Err(error) => Err(broken(error)),
    }
}

fn answer(ruling: RemoteRuling) -> Answer {
    Answer {
        allowed: ruling.allowed,
        is_failure: ruling.reason.starts_with("fail_"),
        retry_after_ms: ruling.retry_after.and_then(|wait| u64::try_from(wait.as_millis()).ok()),
        ..Answer::default()
    }
}

fn outcome(outcome: RemoteOutcome) -> Answer {
    let state = match outcome.state {
        RemoteHoldState::Gone => "gone",
        RemoteHoldState::Cancelled => "cancelled",
        _ => "settled",
    };
    Answer { allowed: true, state: state.to_owned(), ..Answer::default() }
}

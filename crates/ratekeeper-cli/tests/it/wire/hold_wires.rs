//! Units, debits and holds over each wire, with one interface.

use std::time::Duration;

use prost::Message;
use prost_types::Duration as WireDuration;
use ratekeeper_client::{
    Client, ClientError, PlanRequest, RemoteAmounts, RemoteHoldState, RemoteOutcome, RemoteRuling,
};
use serde_json::{Value, json};

use crate::wire::grpc::{asked, block};
use crate::wire::http::{Received, post, send};
use test_support::proto;
use test_support::server::{PATIENCE, Raw, Server};

/// A request: a number of tokens by name, or none.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) key: &'a str,
    pub(crate) plan: &'a str,
    pub(crate) tokens: Option<u64>,
}

/// The answer to a request; to a hold, with its id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) allowed: bool,
    /// Negative for never, or not known.
    pub(crate) retry_after_ms: i64,
    pub(crate) rule: String,
    /// The unit of each rule, and what is left of it.
    pub(crate) each: Vec<(String, u64)>,
    pub(crate) id: Option<String>,
}

/// The answer to a change of a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) state: String,
    pub(crate) remaining: u64,
    pub(crate) retry_after_ms: i64,
}

/// The verbs that name a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Take {
    Acquire,
    Peek,
    Debit,
    /// With this lease in milliseconds, if any.
    Hold(Option<u64>),
}

/// The verbs that change a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// With this number of tokens, if any.
    Settle(Option<u64>),
    Cancel,
    Extend(u64),
}

/// A client of one wire. An error is the server's text about a mistake.
pub(crate) trait Wire {
    fn name(&self) -> &'static str;
    fn take(&mut self, take: Take, asked: Asked<'_>) -> Result<Told, String>;
    fn change(&mut self, change: Change, key: &str, id: &str) -> Result<Ended, String>;
}

/// Returns a client of each wire.
pub(crate) fn all(server: &Server) -> [Box<dyn Wire + '_>; 4] {
    let client = block(async {
        Client::builder().timeout(PATIENCE).connect(server.address("msgpack")).await.unwrap()
    });
    [
        Box::new(OverResp(server.connect())),
        Box::new(OverHttp(server)),
        Box::new(OverGrpc(server)),
        Box::new(OverClient(client)),
    ]
}

struct OverResp(Raw);

impl Wire for OverResp {
    fn name(&self) -> &'static str {
        "resp"
    }

    fn take(&mut self, take: Take, Asked { key, plan, tokens }: Asked<'_>) -> Result<Told, String> {
        let tokens = tokens.map(|tokens| format!(" UNIT tokens {tokens}")).unwrap_or_default();
        let (name, lease) = match take {
            Take::Acquire => ("ACQUIRE", None),
            Take::Peek => ("PEEK", None),
            Take::Debit => ("DEBIT", None),
            Take::Hold(lease) => ("HOLD", lease),
        };
        let lease = lease.map(|lease| format!(" LEASE {lease}")).unwrap_or_default();
        let said = self.0.ask(&format!("{name} {key} {plan}{tokens}{lease} EACH"));
        if said.starts_with('-') {
            return Err(said);
        }
        let words: Vec<&str> = said.split(' ').collect();
        let (id, rows) = match take {
            Take::Hold(_) => (Some(words[6]).filter(|id| *id != "null"), &words[7..]),
            _ => (None, &words[6..]),
        };
        let each = rows.chunks_exact(8).map(|row| (row[2].to_owned(), row[5].parse().unwrap()));
        Ok(Told {
            allowed: words[0] == "1",
            retry_after_ms: words[3].parse().unwrap(),
            rule: words[5].to_owned(),
            each: each.collect(),
            id: id.map(str::to_owned),
        })
    }

    fn change(&mut self, change: Change, key: &str, id: &str) -> Result<Ended, String> {
        let said = self.0.ask(&match change {
            Change::Settle(Some(tokens)) => format!("SETTLE {key} {id} UNIT tokens {tokens}"),
            Change::Settle(None) => format!("SETTLE {key} {id}"),
            Change::Cancel => format!("CANCEL {key} {id}"),
            Change::Extend(lease) => format!("EXTEND {key} {id} {lease}"),
        });
        if said.starts_with('-') {
            return Err(said);
        }
        let words: Vec<&str> = said.split(' ').collect();
        assert_eq!(words.len(), 4, "{said}");
        let (remaining, retry_after_ms) = (words[1].parse().unwrap(), words[2].parse().unwrap());
        Ok(Ended { state: words[0].to_owned(), remaining, retry_after_ms })
    }
}

struct OverHttp<'a>(&'a Server);

impl Wire for OverHttp<'_> {
    fn name(&self) -> &'static str {
        "http"
    }

    fn take(&mut self, take: Take, Asked { key, plan, tokens }: Asked<'_>) -> Result<Told, String> {
        let mut ask = json!({ "key": key, "plan": plan, "each": true });
        if let Some(tokens) = tokens {
            ask["costs"] = json!({ "tokens": tokens });
        }
        let (path, allowed, denied) = match take {
            Take::Acquire => ("/v1/acquire", 200, 429),
            Take::Peek => ("/v1/peek", 200, 200),
            Take::Debit => ("/v1/debit", 200, 200),
            Take::Hold(lease) => {
                if let Some(lease) = lease {
                    ask["lease_ms"] = lease.into();
                }
                ("/v1/holds", 201, 429)
            }
        };
        let received = post(self.0, path, &ask);
        if received.header("content-type") == Some("application/problem+json") {
            return Err(problem(&received));
        }
        let said = received.json();
        let is_allowed = said["allowed"].as_bool().unwrap();
        assert_eq!(received.status, if is_allowed { allowed } else { denied }, "{}", received.body);
        let id = said["id"].as_str().map(str::to_owned);
        assert_eq!(
            received.header("location").map(str::to_owned),
            id.as_ref().map(|id| format!("/v1/holds/{id}"))
        );
        let row =
            |row: &Value| (row["unit"].as_str().unwrap().to_owned(), row["remaining"].as_u64().unwrap());
        Ok(Told {
            allowed: is_allowed,
            retry_after_ms: said["retry_after_ms"].as_i64().unwrap(),
            rule: said["rule"].as_str().unwrap().to_owned(),
            each: said["rules"].as_array().unwrap().iter().map(row).collect(),
            id,
        })
    }

    fn change(&mut self, change: Change, key: &str, id: &str) -> Result<Ended, String> {
        let received = match change {
            Change::Settle(tokens) => {
                let costs = tokens.map_or(Value::Null, |tokens| json!({ "tokens": tokens }));
                post(self.0, &format!("/v1/holds/{id}/settle"), &json!({ "key": key, "costs": costs }))
            }
            Change::Cancel => {
                let key = key.replace(':', "%3A");
                send(self.0, "DELETE", &format!("/v1/holds/{id}?key={key}"), &[], None)
            }
            Change::Extend(lease) => {
                post(self.0, &format!("/v1/holds/{id}/extend"), &json!({ "key": key, "lease_ms": lease }))
            }
        };
        match received.status {
            200 => {
                let said = received.json();
                Ok(Ended {
                    state: said["state"].as_str().unwrap().to_owned(),
                    remaining: said["remaining"].as_u64().unwrap(),
                    retry_after_ms: said["retry_after_ms"].as_i64().unwrap(),
                })
            }
            410 => {
                assert_eq!(received.problem(), (410, "gone".to_owned(), Value::Null));
                Ok(Ended { state: "gone".to_owned(), remaining: 0, retry_after_ms: -1 })
            }
            _ => Err(problem(&received)),
        }
    }
}

fn problem(received: &Received) -> String {
    let (status, code, field) = received.problem();
    let detail = received.json()["detail"].as_str().unwrap().to_owned();
    assert_eq!((status, code.as_str()), (422, "invalid_field"), "{detail}");
    format!("{} {detail}", field.as_str().unwrap())
}

struct OverGrpc<'a>(&'a Server);

impl Wire for OverGrpc<'_> {
    fn name(&self) -> &'static str {
        "grpc"
    }

    fn take(&mut self, take: Take, Asked { key, plan, tokens }: Asked<'_>) -> Result<Told, String> {
        let (key, plans) = (key.to_owned(), vec![plan.to_owned()]);
        let costs = tokens.map(|tokens| ("tokens".to_owned(), tokens)).into_iter().collect();
        let (decision, id) = match take {
            Take::Acquire | Take::Peek => {
                let request = proto::AcquireRequest { key, plans, costs, each: true, ..Default::default() };
                (asked(self.0, &format!("{take:?}"), &request)?, None)
            }
            Take::Debit => {
                let request = proto::DebitRequest { key, plans, costs, each: true, ..Default::default() };
                (asked(self.0, "Debit", &request)?, None)
            }
            Take::Hold(lease) => {
                let lease = lease.map(duration);
                let request =
                    proto::HoldRequest { key, plans, costs, each: true, lease, ..Default::default() };
                let held = proto::HoldResponse::decode(asked(self.0, "Hold", &request)?).unwrap();
                let id = Some(held.id).filter(|id| !id.is_empty());
                (held.decision.unwrap().encode_to_vec().into(), id)
            }
        };
        let said = proto::Decision::decode(decision).unwrap();
        Ok(Told {
            allowed: said.allowed,
            retry_after_ms: said.retry_after.map_or(-1, millis),
            rule: said.rule,
            each: said.rules.into_iter().map(|rule| (rule.unit, rule.remaining)).collect(),
            id,
        })
    }

    fn change(&mut self, change: Change, key: &str, id: &str) -> Result<Ended, String> {
        let (key, id) = (key.to_owned(), id.to_owned());
        let answer = match change {
            Change::Settle(tokens) => {
                let costs = tokens.map(|tokens| ("tokens".to_owned(), tokens)).into_iter().collect();
                let request = proto::SettleRequest { key, id, costs, ..Default::default() };
                asked(self.0, "Settle", &request)?
            }
            Change::Cancel => asked(self.0, "Cancel", &proto::CancelRequest { key, id, each: false })?,
            Change::Extend(lease) => {
                let lease = Some(duration(lease));
                asked(self.0, "Extend", &proto::ExtendRequest { key, id, each: false, lease })?
            }
        };
        let said = proto::HoldOutcome::decode(answer).unwrap();
        let retry_after_ms = said.retry_after.map_or(-1, millis);
        Ok(Ended { state: said.state, remaining: said.remaining, retry_after_ms })
    }
}

fn duration(millis: u64) -> WireDuration {
    let (seconds, rest) = (i64::try_from(millis / 1_000).unwrap(), i32::try_from(millis % 1_000).unwrap());
    WireDuration { seconds, nanos: rest * 1_000_000 }
}

fn millis(WireDuration { seconds, nanos }: WireDuration) -> i64 {
    seconds * 1_000 + i64::from(nanos).div_euclid(1_000_000)
}

struct OverClient(Client);

impl Wire for OverClient {
    fn name(&self) -> &'static str {
        "msgpack"
    }

    fn take(&mut self, take: Take, Asked { key, plan, tokens }: Asked<'_>) -> Result<Told, String> {
        let amounts = tokens.map_or(RemoteAmounts::UNSAID, |tokens| RemoteAmounts::unit("tokens", tokens));
        let request = PlanRequest::new(key, [plan]).amounts(amounts).each();
        let client = &self.0;
        let (ruling, id): (RemoteRuling, _) = block(async {
            Ok::<_, ClientError>(match take {
                Take::Acquire => (client.acquire_plans(&request).await?, None),
                Take::Peek => (client.peek_plans(&request).await?, None),
                Take::Debit => (client.debit(&request).await?, None),
                Take::Hold(lease) => {
                    let lease = Duration::from_millis(lease.unwrap_or(60_000));
                    let held = client.hold(&request, lease).await?;
                    (held.ruling, held.id)
                }
            })
        })
        .map_err(|error| error.to_string())?;
        Ok(Told {
            allowed: ruling.allowed,
            retry_after_ms: ruling.retry_after.map_or(-1, |wait| i64::try_from(wait.as_millis()).unwrap()),
            rule: ruling.rule.unwrap_or_default(),
            each: ruling.rules.into_iter().map(|rule| (rule.unit, rule.remaining)).collect(),
            id: id.map(|id| id.to_string()),
        })
    }

    fn change(&mut self, change: Change, key: &str, id: &str) -> Result<Ended, String> {
        let client = &self.0;
        let said: RemoteOutcome = block(async {
            let id = id.parse()?;
            match change {
                Change::Settle(tokens) => {
                    let spent =
                        tokens.map_or(RemoteAmounts::UNSAID, |tokens| RemoteAmounts::unit("tokens", tokens));
                    client.settle(key, id, &spent).await
                }
                Change::Cancel => client.cancel(key, id).await,
                Change::Extend(lease) => client.extend(key, id, Duration::from_millis(lease)).await,
            }
        })
        .map_err(|error: ClientError| error.to_string())?;
        let state = match said.state {
            RemoteHoldState::Settled => "settled",
            RemoteHoldState::Cancelled => "cancelled",
            RemoteHoldState::Extended => "extended",
            _ => "gone",
        };
        let retry_after_ms = said.retry_after.map_or(-1, |wait| i64::try_from(wait.as_millis()).unwrap());
        Ok(Ended { state: state.to_owned(), remaining: said.remaining, retry_after_ms })
    }
}

//! HTTP/1.1 with JSON, on one connection for many requests; and as Envoy's service.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio_rustls::rustls::ClientConfig;

use super::{Answer, Ask, OWN_QUOTA, Stream, Told, broken, connect};

pub(crate) struct Http(BufReader<Box<dyn Stream>>);

impl Http {
    pub(crate) async fn connect(address: SocketAddr, tls: Option<&Arc<ClientConfig>>) -> io::Result<Self> {
        Ok(Http(BufReader::new(connect(address, tls).await?)))
    }

    pub(crate) async fn ask(&mut self, ask: &Ask) -> io::Result<Told> {
        let (path, body) = match ask {
            Ask::Acquire { key, plan } => ("/v1/acquire".to_owned(), json!({ "key": key, "plan": plan })),
            Ask::Peek { key, plan } => ("/v1/peek".to_owned(), json!({ "key": key, "plan": plan })),
            Ask::Throttle { key } => {
                let [burst, count, period] = OWN_QUOTA;
                let body =
                    json!({ "key": key, "max_burst": burst, "count_per_period": count, "period": period });
                ("/throttle".to_owned(), body)
            }
            Ask::Refund { key, plan, age_ms } => {
                ("/v1/refund".to_owned(), json!({ "key": key, "plan": plan, "age_ms": age_ms }))
            }
            Ask::Hold { key, plan, tokens, lease_ms } => {
                let costs = json!({ "tokens": tokens });
                let body = json!({ "key": key, "plan": plan, "costs": costs, "lease_ms": lease_ms });
                ("/v1/holds".to_owned(), body)
            }
            Ask::Settle { key, id, tokens } => {
                (format!("/v1/holds/{id}/settle"), json!({ "key": key, "costs": { "tokens": tokens } }))
            }
            Ask::Cancel { key, id } => (format!("/v1/holds/{id}?key={key}"), Value::Null),
            Ask::Envoy { user } => {
                let entries = json!([{ "key": "user", "value": user }]);
                ("/json".to_owned(), json!({ "domain": "soak", "descriptors": [{ "entries": entries }] }))
            }
        };
        let method = if body.is_null() { "DELETE" } else { "POST" };
        let (status, text) = self.exchange(method, &path, &body).await?;
        let told: Value = serde_json::from_str(&text).map_err(broken)?;
        Ok(decode(ask, status, &told).ok_or_else(|| format!("{status} {text}")))
    }

    /// Gets a page.
    pub(crate) async fn get(&mut self, path: &str) -> io::Result<String> {
        let (status, text) = self.exchange("GET", path, &Value::Null).await?;
        if status == 200 { Ok(text) } else { Err(broken(format!("{path}: {status} {text}"))) }
    }

    async fn exchange(&mut self, method: &str, path: &str, body: &Value) -> io::Result<(u16, String)> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.0.write_all(request.as_bytes()).await?;
        self.0.flush().await?;
        let head = self.line().await?;
        let status =
            head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(|| broken(&head))?;
        let mut len = 0;
        loop {
            let field = self.line().await?.to_ascii_lowercase();
            if field.is_empty() {
                break;
            }
            if let Some(value) = field.strip_prefix("content-length:") {
                len = value.trim().parse().map_err(broken)?;
            }
        }
        let mut body = vec![0; len];
        self.0.read_exact(&mut body).await?;
        Ok((status, String::from_utf8(body).map_err(broken)?))
    }

    async fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).await?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// None if the server has not decided.
fn decode(ask: &Ask, status: u16, told: &Value) -> Option<Answer> {
    let is_told = told["code"].is_null() && matches!(status, 200 | 201 | 429);
    match ask {
        Ask::Settle { .. } | Ask::Cancel { .. } => {
            let state = if status == 410 { "gone" } else { told["state"].as_str()? };
            Some(Answer { allowed: true, state: state.to_owned(), ..Answer::default() })
        }
        Ask::Envoy { .. } => {
            let allowed = told["overallCode"].as_str()? == "OK";
            Some(Answer { allowed, ..Answer::default() })
        }
        _ if is_told => Some(Answer {
            allowed: told["allowed"].as_bool()?,
            is_failure: told["reason"].as_str().is_some_and(|reason| reason.starts_with("fail_")),
            retry_after_ms: told["retry_after_ms"].as_u64(),
            id: told["id"].as_str().map(str::to_owned),
            state: String::new(),
        }),
        _ => None,
    }
}

//! The protocol of Redis: one command at a time, or many in one write.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio_rustls::rustls::ClientConfig;

use super::{Answer, Ask, OWN_QUOTA, Stream, Told, broken, connect};
use test_support::server::command;

pub(crate) struct Resp(BufReader<Box<dyn Stream>>);

impl Resp {
    pub(crate) async fn connect(address: SocketAddr, tls: Option<&Arc<ClientConfig>>) -> io::Result<Self> {
        Ok(Resp(BufReader::new(connect(address, tls).await?)))
    }

    /// Asks for all of it in one write; `seen` is called after each answer.
    pub(crate) async fn ask(&mut self, asks: &[Ask], mut seen: impl FnMut(&Told)) -> io::Result<Vec<Told>> {
        let bytes: Vec<u8> = asks.iter().flat_map(encode).collect();
        self.0.write_all(&bytes).await?;
        self.0.flush().await?;
        let mut answers = Vec::new();
        for ask in asks {
            let words = self.reply().await?;
            let told = words.map(|words| decode(ask, &words));
            seen(&told);
            answers.push(told);
        }
        Ok(answers)
    }

    /// One reply: the elements of an array, or an error of the server.
    async fn reply(&mut self) -> io::Result<Result<Vec<String>, String>> {
        let head = self.line().await?;
        if let Some(error) = head.strip_prefix('-') {
            return Ok(Err(error.to_owned()));
        }
        let count: usize =
            head.strip_prefix('*').and_then(|count| count.parse().ok()).ok_or_else(|| broken(&head))?;
        let mut words = Vec::new();
        for _ in 0..count {
            let head = self.line().await?;
            let word = match head.split_at(1) {
                (":", number) => number.to_owned(),
                ("$", "-1") => String::new(),
                ("$", len) => {
                    let mut bytes = vec![0; len.parse::<usize>().map_err(broken)? + 2];
                    self.0.read_exact(&mut bytes).await?;
                    bytes.truncate(bytes.len() - 2);
                    String::from_utf8(bytes).map_err(broken)?
                }
                _ => return Err(broken(head)),
            };
            words.push(word);
        }
        Ok(Ok(words))
    }

    async fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).await?;
        if !line.ends_with("\r\n") || line.len() < 3 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line.truncate(line.len() - 2);
        Ok(line)
    }
}

fn encode(ask: &Ask) -> Vec<u8> {
    let number = |number: u64| number.to_string();
    let words: Vec<String> = match ask {
        Ask::Acquire { key, plan } => vec!["ACQUIRE".into(), key.clone(), (*plan).into()],
        Ask::Peek { key, plan } => vec!["PEEK".into(), key.clone(), (*plan).into()],
        Ask::Throttle { key } => {
            let numbers = OWN_QUOTA.map(|number| number.to_string());
            ["THROTTLE".to_owned(), key.clone()].into_iter().chain(numbers).collect()
        }
        Ask::Refund { key, plan, age_ms } => {
            vec!["REFUND".into(), key.clone(), (*plan).into(), "AGE".into(), number(*age_ms)]
        }
        Ask::Hold { key, plan, tokens, lease_ms } => vec![
            "HOLD".into(),
            key.clone(),
            (*plan).into(),
            "UNIT".into(),
            "tokens".into(),
            number(*tokens),
            "LEASE".into(),
            number(*lease_ms),
        ],
        Ask::Settle { key, id, tokens } => {
            vec!["SETTLE".into(), key.clone(), id.clone(), "UNIT".into(), "tokens".into(), number(*tokens)]
        }
        Ask::Cancel { key, id } => vec!["CANCEL".into(), key.clone(), id.clone()],
        Ask::Envoy { .. } => unreachable!("Envoy does not speak it"),
    };
    command(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>())
}

/// The protocol does not tell why: an answer of the failure mode looks like any other.
fn decode(ask: &Ask, words: &[String]) -> Answer {
    let word = |place: usize| words.get(place).map_or("", String::as_str);
    if matches!(ask, Ask::Settle { .. } | Ask::Cancel { .. }) {
        return Answer { allowed: true, state: word(0).to_owned(), ..Answer::default() };
    }
    // Of a quota of its own, times are in seconds.
    let retry_after_ms = match ask {
        Ask::Throttle { .. } => None,
        _ => word(3).parse().ok(),
    };
    let id = Some(word(6).to_owned()).filter(|id| !id.is_empty());
    Answer { allowed: word(0) == "1", retry_after_ms, id, ..Answer::default() }
}

//! A thread that sends.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::report::StatsdReport;
use super::sink::StatsdSink;
use crate::engine::Engine;
use crate::error::{Explain, ServerError};
use crate::settings::StatsdSettings;
use crate::transport::http::rls_stats;

/// How long the last report is waited for: a process that stops has little time.
const LAST: Duration = Duration::from_millis(500);
/// How often it is said that statsd is away.
const REMINDER: Duration = Duration::from_secs(60);

/// Sends the counters of an engine's Envoy service to statsd, on a thread of its own: what has come since the last report,
/// again and again, and once more when it is dropped. Requests never wait for it, and what could not be sent is part of the
/// next report. What was sent and then lost on the way is lost: nobody on the other side says what has come.
#[derive(Debug)]
pub struct StatsdSender {
    /// Nothing is ever sent: the thread ends when this is gone.
    stop: Option<Sender<Infallible>>,
    /// Closed when the thread has ended.
    ended: Receiver<Infallible>,
}

impl StatsdSender {
    /// Starts to send.
    ///
    /// # Errors
    ///
    /// A thread cannot be started.
    pub fn start(settings: &StatsdSettings, engine: &Arc<Engine>) -> Result<Self, ServerError> {
        let (stop, stopped) = channel();
        let (running, ended) = channel();
        let (settings, engine) = (settings.clone(), Arc::clone(engine));
        let run = move || {
            let _running = running;
            let every = settings.every;
            let mut reporter = Reporter::new(settings);
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(every) {
                reporter.report(&engine);
            }
            reporter.report(&engine);
        };
        thread::Builder::new().name("statsd".into()).spawn(run).explain(|| "cannot start a thread")?;
        Ok(StatsdSender { stop: Some(stop), ended })
    }
}

impl Drop for StatsdSender {
    /// Waits for the last report, half a second at most.
    fn drop(&mut self) {
        self.stop = None;
        let _ = self.ended.recv_timeout(LAST);
    }
}

/// What the thread does.
#[derive(Debug)]
struct Reporter {
    settings: StatsdSettings,
    report: StatsdReport,
    sink: Option<StatsdSink>,
    /// When it was last said that statsd is away.
    said: Option<Instant>,
}

impl Reporter {
    fn new(settings: StatsdSettings) -> Self {
        Reporter { report: StatsdReport::new(&settings.tags), settings, sink: None, said: None }
    }

    fn report(&mut self, engine: &Engine) {
        let Some(counters) = rls_stats(engine) else { return };
        if let Err(error) = self.send(counters) {
            // A socket that failed may be half full of a line.
            self.sink = None;
            if self.said.is_none_or(|said| said.elapsed() >= REMINDER) {
                self.said = Some(Instant::now());
                let StatsdSettings { host, port, .. } = &self.settings;
                tracing::warn!(host, port, %error, "statsd: cannot be reached, counts are sent when it can be");
            }
        }
    }

    fn send(&mut self, counters: Vec<(String, u64)>) -> io::Result<()> {
        let packets = self.report.packets(counters);
        if !packets.is_empty() && self.sink.as_mut().is_some_and(|sink| sink.is_gone()) {
            self.sink = None;
        }
        for packet in packets {
            let sink = match &mut self.sink {
                Some(sink) => sink,
                None => self.sink.insert(StatsdSink::open(&self.settings)?),
            };
            sink.send(&packet.text)?;
            self.report.was_sent(packet);
        }
        Ok(())
    }
}

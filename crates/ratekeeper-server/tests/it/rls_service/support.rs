//! A service, a store and a clock, and a short hand for what is asked and told.

use std::sync::Arc;

use futures_util::FutureExt;
use ratekeeper::port::Store;
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Keeper, MemoryStore, Nanos, Plan, Registry, Timestamp};
use ratekeeper_server::rls::{
    RateLimitService, RlsAnswer, RlsCode, RlsDescriptor, RlsEntry, RlsError, RlsRequest, RlsSettings,
    RuleReading, SourceTexts, parse_sources,
};

/// The second that tests begin in: 40 s before the end of its minute.
pub(crate) const START: i64 = 1_700_000_000;

/// A service over a store in memory.
pub(crate) struct World {
    pub(crate) service: RateLimitService,
    pub(crate) keeper: Keeper,
    pub(crate) plans: Registry,
    pub(crate) clock: Arc<FakeClock>,
}

impl World {
    /// Returns a service of these files.
    pub(crate) fn new(files: &[(&str, &str)], settings: RlsSettings) -> Self {
        let clock = Arc::new(FakeClock::at(Timestamp::from_secs(START)));
        let store = MemoryStore::builder().clock(Arc::clone(&clock)).build();
        Self::over(Arc::new(store), clock, files, settings)
    }

    /// Returns a service over another store.
    pub(crate) fn over(
        store: Arc<dyn Store>,
        clock: Arc<FakeClock>,
        files: &[(&str, &str)],
        settings: RlsSettings,
    ) -> Self {
        let plans = Registry::default();
        let keeper = Keeper::from_arcs(store, Arc::new(plans.clone()));
        let service = RateLimitService::new(settings).clock(Arc::clone(&clock));
        let world = World { service, keeper, plans, clock };
        world.load(files);
        world
    }

    /// Returns a service of one domain `d`, whose descriptors these are.
    pub(crate) fn of(descriptors: &str, settings: RlsSettings) -> Self {
        Self::new(&[("d.yaml", &domain(descriptors))], settings)
    }

    pub(crate) fn load(&self, files: &[(&str, &str)]) {
        let texts = SourceTexts::from_texts(files.iter().copied());
        let (config, _) = parse_sources(&texts, self.service.settings()).unwrap();
        self.service.load(config);
    }

    pub(crate) fn plans(&self, plans: &[(&str, &str)]) {
        self.plans.replace(plans.iter().map(|(name, rules)| Plan::parse(name, rules).unwrap()));
    }

    pub(crate) fn advance(&self, seconds: u64) {
        self.clock.advance(Nanos::from_secs(seconds));
    }

    /// Returns the answer, which is there at once.
    pub(crate) fn try_ask(&self, request: &RlsRequest) -> Result<RlsAnswer, RlsError> {
        self.service.should_rate_limit(&self.keeper, request, None).now_or_never().unwrap()
    }

    pub(crate) fn answer(&self, request: &str) -> RlsAnswer {
        self.try_ask(&asked(request)).unwrap()
    }

    /// Returns the answer in short: `OVER: OVER 0, OK 5, –`.
    pub(crate) fn ask(&self, request: &str) -> String {
        told(&self.answer(request))
    }

    /// Returns the answers to one request, asked again and again.
    pub(crate) fn ask_times(&self, request: &str, times: usize) -> Vec<String> {
        (0..times).map(|_| self.ask(request)).collect()
    }

    /// Returns what was counted under a name.
    pub(crate) fn counted(&self, name: &str) -> RuleReading {
        let reading = self.service.read_counts();
        let found = reading.rules.into_iter().find(|(rule, _)| rule.as_str() == name);
        found.map(|(_, counts)| counts).unwrap_or_default()
    }
}

/// Returns a file of one domain `d`, whose descriptors these are.
pub(crate) fn domain(descriptors: &str) -> String {
    format!("domain: d\ndescriptors: [{descriptors}]")
}

/// Returns a request: `domain: key=value key=value + key=value`, with `@N` for hits of a descriptor, `-N` for hits that are
/// given back, and `#N` behind the domain for those of the request.
pub(crate) fn asked(text: &str) -> RlsRequest {
    let (domain, descriptors) = text.split_once(": ").unwrap();
    let (domain, hits) = domain.split_once('#').unwrap_or((domain, "0"));
    RlsRequest {
        domain: domain.to_owned(),
        descriptors: descriptors.split(" + ").map(descriptor).collect(),
        hits_addend: hits.parse().unwrap(),
    }
}

fn descriptor(text: &str) -> RlsDescriptor {
    let mut descriptor = RlsDescriptor::default();
    for word in text.split_whitespace() {
        if let Some(hits) = word.strip_prefix('@') {
            descriptor.hits_addend = Some(hits.parse().unwrap());
        } else if let Some(hits) = word.strip_prefix('-') {
            descriptor.hits_addend = Some(hits.parse().unwrap());
            descriptor.is_negative = true;
        } else {
            let (key, value) = word.split_once('=').unwrap();
            descriptor.entries.push(RlsEntry { key: key.to_owned(), value: value.to_owned() });
        }
    }
    descriptor
}

/// Returns an answer in short.
pub(crate) fn told(answer: &RlsAnswer) -> String {
    let code = |code| if code == RlsCode::Ok { "OK" } else { "OVER" };
    let status = |status: &ratekeeper_server::rls::DescriptorStatus| match &status.current_limit {
        None if status.limit_remaining == 0 && status.code == RlsCode::Ok => "–".to_owned(),
        _ => format!("{} {}", code(status.code), status.limit_remaining),
    };
    let statuses: Vec<_> = answer.statuses.iter().map(status).collect();
    format!("{}: {}", code(answer.overall), statuses.join(", "))
}

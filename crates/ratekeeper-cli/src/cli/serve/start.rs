//! A server with the settings that flags and file amount to.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use ratekeeper::port::Store;
use ratekeeper::store::MemoryStoreBuilder;
use ratekeeper::{MemoryStore, Registry};
use ratekeeper_redis::EnvoyproxyStore;
use ratekeeper_server::config::Config;
use ratekeeper_server::rls::{RateLimitService, RedisLayout, watch_sources};
use ratekeeper_server::{
    Engine, EventLog, FileWatcher, PeriodicSnapshot, ProcessSignals, Recorder, Settings, SharedStore,
    Snapshot, StatsdSender, StoreLocation, Tracer, check_store, close_store, config, serve,
};

use super::super::output::EXIT_NO;
use super::flags::ServeFlags;
use super::settings;
use super::xds::{self, Followed};
use crate::log;

/// Serves until the process is told to stop, and writes the snapshot, if there is one.
pub(in crate::cli) fn run(flags: ServeFlags) -> Result<ExitCode> {
    let config = flags.config.as_deref().map(Config::read).transpose()?;
    let settings = settings::settings(&flags, config.as_ref())?;
    let plans = config.as_ref().map(Config::plans).transpose()?;
    let registry = Registry::new(plans.unwrap_or_default());
    let (level, format) = settings::logging(&flags, config.as_ref());
    log::start(level, format);
    let limits = &settings.limits;
    if limits.bounds.plans_only && (limits.burst.or(limits.rate).or(limits.period)).is_some() {
        tracing::warn!(
            "[limits] default_burst, default_rate and default_period are not used: plans_only is set"
        );
    }
    start(&settings, registry.clone(), |engine| {
        let Some(config) = config else { return Ok(Vec::new()) };
        // Everything that the file says, as at a start: but what needs a restart is not fetched from elsewhere.
        let understand = Box::new(move |config: &Config| {
            settings::check(&flags, config)?;
            Ok(config.plans()?)
        });
        let reload =
            config::watch(&config, registry, engine.reloads().clone(), engine.events().clone(), understand);
        Ok(vec![reload.context("cannot watch --config")?])
    })
}

/// Serves with these settings and plans until the process is told to stop. `watch` returns what looks at files
/// meanwhile.
pub(in crate::cli) fn start(
    settings: &Settings,
    registry: Registry,
    watch: impl FnOnce(&Arc<Engine>) -> Result<Vec<FileWatcher>>,
) -> Result<ExitCode> {
    // What happens to the server, whoever notices it.
    let events = EventLog::default();
    let snapshot = settings.snapshot.as_deref().map(Snapshot::open).transpose()?.map(Arc::new);
    let mut shared_store = None;
    let engine = match &settings.store {
        StoreLocation::Memory => {
            let store = match &snapshot {
                Some(snapshot) => snapshot.restore(|| memory(settings), &events)?,
                None => memory(settings).build(),
            };
            let engine = Engine::in_memory(store, registry.clone(), settings.limits);
            match &snapshot {
                Some(snapshot) => engine.with_snapshot(snapshot.counts().clone()),
                None => engine,
            }
        }
        StoreLocation::Redis(_) | StoreLocation::Postgres(_) => {
            // A server that is down is found when it is up, and until then the plans say what to answer.
            let shared =
                SharedStore::of(settings, Arc::new(events.clone()))?.context("--store: not shared")?;
            check_store(shared.clone(), settings.redis.timeout)?;
            let (breakers, counts) = (shared.clone(), shared.clone());
            let engine = Engine::over(layered(&shared, settings), registry.clone(), settings.limits)
                .guarded_by(move || breakers.breakers(), memory(settings).build())
                .counted_by(move || counts.counts())
                .remote_kind_is(shared.kind());
            shared_store = Some(shared);
            engine
        }
    };
    let engine = engine
        .kept_for_plans(settings.kept_for_plans)
        .on_store_error(settings.on_store_error)
        .top_denied(settings.top_denied)
        .logging_denials(settings.log_denials)
        .with_events(events.clone());
    let recorder = settings.record.as_ref().map(Recorder::start).transpose()?;
    let engine = match &recorder {
        Some(recorder) => engine.recorded_by(recorder),
        None => engine,
    };
    let tracer = settings.otlp.as_ref().map(Tracer::start).transpose()?;
    let engine = match &tracer {
        Some(tracer) => engine.traced_by(tracer.clone()),
        None => engine,
    };
    let service =
        settings.rls.clone().map(|rls| RateLimitService::new(rls).with_events(events)).map(Arc::new);
    let engine = match &service {
        Some(service) => engine.with_rls(Arc::clone(service)),
        None => engine,
    };
    let engine = Arc::new(engine);
    let mut reloads = watch(&engine)?;
    // Files, unless a control plane has the rules.
    if let Some(service) = service.as_ref().filter(|service| service.settings().xds.is_none()) {
        // Loads what there is before anybody can ask.
        reloads.push(watch_sources(service, engine.registry()).context("cannot watch --rls")?);
    }
    // Sends what is counted until the server has stopped.
    let _statsd = settings.statsd.as_ref().map(|statsd| StatsdSender::start(statsd, &engine)).transpose()?;
    // Before anything is waited for: the first process of a container is not ended by a signal that it does not receive.
    let mut signals = ProcessSignals::receive(reloads)?;
    // Follows the control plane until the server has stopped.
    let followed = service.as_ref().map(|service| xds::follow(service, &mut signals)).transpose()?;
    if let Some(Followed::Stopped) = followed {
        // Nothing was decided, so that there is no state to be written.
        return Ok(ExitCode::SUCCESS);
    }
    let periodic = match &snapshot {
        Some(snapshot) if !settings.snapshot_every.is_zero() => {
            Some(PeriodicSnapshot::start(snapshot, settings.snapshot_every, &engine)?)
        }
        _ => None,
    };
    serve(settings, &engine, signals)?;
    if let Some(store) = &shared_store {
        close_store(store)?;
    }
    if let Some(periodic) = periodic {
        periodic.stop();
    }
    let is_kept = snapshot.as_deref().is_none_or(|snapshot| write_at_stop(snapshot, &engine));
    if let Some(tracer) = tracer {
        tracer.stop();
    }
    // Last: its disk may be another one, and hang.
    if let Some(recorder) = recorder {
        recorder.stop();
    }
    Ok(if is_kept { ExitCode::SUCCESS } else { ExitCode::from(EXIT_NO) })
}

/// Writes the state that the next start finds. Returns false if it could not be written.
fn write_at_stop(snapshot: &Snapshot, engine: &Engine) -> bool {
    let Some(store) = engine.memory() else { return true };
    match snapshot.write(store) {
        Ok(bytes) => tracing::info!(keys = store.len(), bytes, "snapshot: state written"),
        Err(error) => {
            let error = format!("{error:#}");
            tracing::error!(error, "snapshot: state not written, the next start forgets it");
            return false;
        }
    }
    true
}

/// A store that is shared, with the counters of the Go service if it is to share them.
fn layered(shared: &SharedStore, settings: &Settings) -> Arc<dyn Store> {
    let rls = settings.rls.as_ref().filter(|rls| rls.redis_layout == RedisLayout::Envoyproxy);
    match (shared, rls) {
        (SharedStore::Redis(store), Some(rls)) => {
            Arc::new(EnvoyproxyStore::new(store.clone()).prefix(&rls.cache_key_prefix))
        }
        _ => shared.store(),
    }
}

/// A store in memory, within its bounds.
fn memory(settings: &Settings) -> MemoryStoreBuilder {
    let builder = MemoryStore::builder().max_keys(settings.max_keys).keep_keys(settings.keep_keys);
    match settings.max_bytes {
        Some(max_bytes) => builder.max_bytes(max_bytes),
        None => builder,
    }
}

//! The examples in the guides and in every README are tests too.
//!
//! They are here and not in the crates, whose packages hold nothing of this folder; and here they may use every crate.

#![forbid(unsafe_code)]

/// Makes each document the documentation of an item, whose examples are then tested.
macro_rules! documents {
    ($($item:ident = $path:literal;)*) => {
        $(
            #[cfg(doctest)]
            #[doc = include_str!($path)]
            struct $item;
        )*
    };
}

documents! {
    Readme = "../README.md";
    EngineReadme = "../crates/ratekeeper/README.md";
    ClientReadme = "../crates/ratekeeper-client/README.md";
    MiddlewareReadme = "../crates/ratekeeper-http/README.md";
    PostgresReadme = "../crates/ratekeeper-postgres/README.md";
    RedisReadme = "../crates/ratekeeper-redis/README.md";
    ServerReadme = "../crates/ratekeeper-server/README.md";
    DistributedGuide = "guide/distributed.md";
    HttpGuide = "guide/http.md";
    LanguageModelGuide = "guide/llm.md";
    LimitersGuide = "guide/limiters.md";
    MigrationGuide = "guide/migrate.md";
    PostgresGuide = "guide/postgres.md";
}

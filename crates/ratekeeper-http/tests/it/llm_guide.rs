//! The guide to language models shows the example as it is, and what it prints.

#[allow(dead_code, reason = "the example listens, too")]
mod llm_gateway {
    include!("../../examples/llm_gateway/gateway.rs");
}

use crate::server::support::frozen;

const GUIDE: &str = include_str!("../../../../docs/guide/llm.md");
const EXAMPLE: &str = include_str!("../../examples/llm_gateway/gateway.rs");

/// The fenced blocks of the guide in this language.
fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("\n```{language}\n");
    GUIDE.split(&fence).skip(1).map(|rest| rest.split("\n```").next().unwrap()).collect()
}

#[test]
fn the_guide_shows_the_example() {
    let shown = blocks("rust");
    assert_eq!(shown.len(), 3);
    for block in shown {
        let code: Vec<&str> = block.lines().filter(|line| !line.starts_with("# ")).collect();
        assert!(EXAMPLE.contains(&code.join("\n")), "{block}");
    }
    assert!(GUIDE.contains(r#"limits = ["60/m", "100000 tokens/m burst 20000", "8 concurrent"]"#));
}

#[tokio::test]
async fn the_example_prints_what_the_guide_shows() {
    let mut printed = Vec::new();
    llm_gateway::demonstrate(frozen(), |line| printed.push(line)).await.unwrap();
    assert_eq!(printed.join("\n"), blocks("text")[0]);
}

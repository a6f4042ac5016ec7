use ratekeeper_http::client::Pace;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or("http://127.0.0.1:3000/".into());
    let client = reqwest_middleware::ClientBuilder::new(reqwest::Client::new())
        .with(Pace::new("50/s".parse()?)?.retries(3))
        .build();
    println!("{}", client.get(url).send().await?.status());
    Ok(())
}

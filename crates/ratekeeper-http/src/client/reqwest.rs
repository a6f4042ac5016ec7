//! The polite client as a `reqwest-middleware`.

use http::{Extensions, Uri};
use reqwest::{Request, Response};
use reqwest_middleware::{Error, Middleware, Next, Result};

use super::acquire::ObservedResponse;
use super::pace::Pace;
use crate::key::RequestView;

/// The host that reqwest says a response is from if it was made by another middleware, and not received.
const NOBODY: &str = "no.url.provided.local";

/// ```
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use ratekeeper_http::client::Pace;
/// let client = reqwest_middleware::ClientBuilder::new(reqwest::Client::new())
///     .with(Pace::new("50/s".parse()?)?)
///     .build();
/// let response = client.get("http://example.com/").send().await?;
/// # let _ = response;
/// # Ok(()) }
/// ```
#[async_trait::async_trait]
impl Middleware for Pace {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let uri: Uri = request.url().as_str().parse().map_err(Error::middleware)?;
        let mut request = request;
        let costs =
            self.costs_of(&RequestView::outgoing(request.headers(), &uri, request.method(), extensions));
        let acquired = self.acquire(&uri, request.headers(), &costs).await;
        let mut in_flight = acquired.map_err(Error::middleware)?;
        let mut attempt = 0;
        loop {
            // Kept to be sent again; none of a body that is a stream.
            let again = request.try_clone();
            let (method, sent) = (request.method().clone(), request.headers().clone());
            let answer = next.clone().run(request, extensions).await;
            let mut response = answer.inspect_err(|_| self.heard_nothing(&in_flight))?;
            let (status, headers) = (response.status(), response.headers().clone());
            let answered_by = answered_by(&response).filter(|by| *by != uri);
            let extensions = response.extensions_mut();
            let answer = ObservedResponse {
                uri: answered_by.as_ref(),
                request: &sent,
                status,
                headers: &headers,
                extensions,
            };
            let elsewhere = self.heard(&in_flight, answer);
            drop(in_flight);
            let Some(again) = again.filter(|_| self.retries_it(attempt, &method, status)) else {
                return Ok(response);
            };
            match self.acquire_again(&uri, again.headers(), &costs, elsewhere.as_ref()).await {
                Some(acquired) => (in_flight, request) = (acquired, again),
                None => return Ok(response),
            }
            attempt += 1;
        }
    }
}

/// Returns whom a response is from: the last of those that the client was redirected to.
fn answered_by(response: &Response) -> Option<Uri> {
    let url = response.url();
    if url.host_str() == Some(NOBODY) {
        return None;
    }
    url.as_str().parse().ok()
}

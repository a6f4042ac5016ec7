//! `grpc.reflection`: describes the services to tools that have no `.proto` file.

use std::collections::HashMap;
use std::sync::LazyLock;

use bytes::Bytes;
use prost::Message;
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorProto, FileDescriptorSet};

use super::generated::DESCRIPTORS;
use super::generated::grpc_reflection_v1::server_reflection_request::MessageRequest;
use super::generated::grpc_reflection_v1::server_reflection_response::MessageResponse;
use super::generated::grpc_reflection_v1::{
    ErrorResponse, FileDescriptorResponse, ListServiceResponse, ServerReflectionRequest,
    ServerReflectionResponse, ServiceResponse,
};
use super::message::{self, RequestMessages, ResponseStream};
use super::reply::Reply;
use super::rls::RLS;
use super::status::GrpcCode;
use crate::net::{Connection, LoopBudget};

/// Bytes of the budget that a question is worth, besides its answer.
const QUESTION_WORTH: usize = 256;

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(Catalogue::new);

/// Answers as many questions as the client has.
pub(super) async fn answer(
    connection: &Connection,
    has_rls: bool,
    messages: &mut RequestMessages,
    reply: &mut Reply,
) {
    let mut answers = ResponseStream::begin(reply);
    let mut budget = LoopBudget::default();
    loop {
        let next = tokio::select! {
            next = messages.next() => next,
            () = connection.stop().wait() => return answers.end(None),
        };
        let request: Result<ServerReflectionRequest, _> = match next {
            Ok(Some(message)) => message::decode(message),
            Ok(None) => return answers.end(None),
            Err(status) => Err(status),
        };
        match request {
            Ok(request) => {
                let answer = CATALOGUE.answer(request, has_rls);
                budget.spend(QUESTION_WORTH + answer.encoded_len());
                answers.send(&answer).await;
                // Hundreds of kilobytes may be answered before the client has to take any of it.
                if budget.is_spent() {
                    tokio::task::yield_now().await;
                }
            }
            Err(status) => return answers.end(Some(status)),
        }
    }
}

/// The descriptors, by every name that can be asked for.
struct Catalogue {
    files: Vec<Bytes>,
    by_name: HashMap<String, usize>,
    by_symbol: HashMap<String, usize>,
    services: Vec<String>,
}

impl Catalogue {
    fn new() -> Self {
        // They are part of the program; a test reads them.
        let set = FileDescriptorSet::decode(DESCRIPTORS).unwrap_or_default();
        let mut catalogue = Catalogue {
            files: Vec::new(),
            by_name: HashMap::new(),
            by_symbol: HashMap::new(),
            services: Vec::new(),
        };
        for file in &set.file {
            catalogue.add(file);
        }
        catalogue
    }

    fn add(&mut self, file: &FileDescriptorProto) {
        let package = file.package();
        self.by_name.insert(file.name().to_owned(), self.files.len());
        for message in &file.message_type {
            self.message(package, message);
        }
        for kind in &file.enum_type {
            self.enumeration(package, kind);
        }
        for service in &file.service {
            let name = self.symbol(package, service.name());
            for method in &service.method {
                self.symbol(&name, method.name());
            }
            self.services.push(name);
        }
        self.files.push(file.encode_to_vec().into());
    }

    fn message(&mut self, scope: &str, message: &DescriptorProto) {
        let name = self.symbol(scope, message.name());
        for field in &message.field {
            self.symbol(&name, field.name());
        }
        for nested in &message.nested_type {
            self.message(&name, nested);
        }
        for kind in &message.enum_type {
            self.enumeration(&name, kind);
        }
    }

    fn enumeration(&mut self, scope: &str, kind: &EnumDescriptorProto) {
        let name = self.symbol(scope, kind.name());
        for value in &kind.value {
            self.symbol(&name, value.name());
        }
    }

    /// Notes that a name is in the file that comes next.
    fn symbol(&mut self, scope: &str, name: &str) -> String {
        let name = format!("{scope}.{name}");
        self.by_symbol.insert(name.clone(), self.files.len());
        name
    }

    fn answer(&self, request: ServerReflectionRequest, has_rls: bool) -> ServerReflectionResponse {
        let told = match &request.message_request {
            Some(MessageRequest::FileByFilename(name)) => self.file(self.by_name.get(name), "no such file"),
            Some(MessageRequest::FileContainingSymbol(name)) => {
                self.file(self.by_symbol.get(name), "no such symbol")
            }
            Some(MessageRequest::ListServices(_)) => {
                let service = |name: &String| ServiceResponse { name: name.clone() };
                let is_served = |name: &&String| has_rls || *name != RLS;
                let service = self.services.iter().filter(is_served).map(service).collect();
                MessageResponse::ListServicesResponse(ListServiceResponse { service })
            }
            Some(
                MessageRequest::FileContainingExtension(_) | MessageRequest::AllExtensionNumbersOfType(_),
            ) => error(GrpcCode::NotFound, "nothing is extended here"),
            None => error(GrpcCode::InvalidArgument, "message_request: missing; say what you want to know"),
        };
        ServerReflectionResponse {
            valid_host: request.host.clone(),
            original_request: Some(request),
            message_response: Some(told),
        }
    }

    fn file(&self, index: Option<&usize>, missing: &str) -> MessageResponse {
        match index.and_then(|index| self.files.get(*index)) {
            Some(file) => MessageResponse::FileDescriptorResponse(FileDescriptorResponse {
                file_descriptor_proto: vec![file.to_vec()],
            }),
            None => error(GrpcCode::NotFound, missing),
        }
    }
}

fn error(code: GrpcCode, message: &str) -> MessageResponse {
    MessageResponse::ErrorResponse(ErrorResponse {
        error_code: code as i32,
        error_message: message.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_and_symbol_is_found() {
        assert_eq!(
            CATALOGUE.services,
            [
                "throttlecrab.RateLimiter",
                "ratekeeper.v1.RateLimiter",
                "envoy.service.ratelimit.v3.RateLimitService",
                "grpc.health.v1.Health",
                "grpc.reflection.v1.ServerReflection",
                "grpc.reflection.v1alpha.ServerReflection",
            ]
        );
        for symbol in [
            "throttlecrab.RateLimiter.Throttle",
            "ratekeeper.v1.Decision.retry_after",
            "grpc.health.v1.HealthCheckResponse.ServingStatus",
            "google.protobuf.Duration",
            "envoy.service.ratelimit.v3.RateLimitResponse.RateLimit.Unit.WEEK",
            "envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.is_negative_hits",
        ] {
            assert!(CATALOGUE.by_symbol.contains_key(symbol), "{symbol}");
        }
        assert!(
            CATALOGUE.by_name.contains_key("google/protobuf/duration.proto"),
            "imports are there as well"
        );
        assert!(!CATALOGUE.by_name.keys().any(|name| name.contains("discovery")), "what is only asked for");
    }

    #[test]
    fn a_service_is_listed_where_it_is_served() {
        let listed = |has_rls| {
            let message_request = Some(MessageRequest::ListServices(String::new()));
            let request = ServerReflectionRequest { message_request, ..Default::default() };
            match CATALOGUE.answer(request, has_rls).message_response {
                Some(MessageResponse::ListServicesResponse(list)) => list.service,
                other => panic!("{other:?}"),
            }
        };
        let is_listed = |has_rls| listed(has_rls).iter().any(|service| service.name == RLS);
        assert!(is_listed(true) && !is_listed(false));
        assert_eq!(listed(false).len(), CATALOGUE.services.len() - 1);
    }
}

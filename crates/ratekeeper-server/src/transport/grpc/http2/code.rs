//! Why a stream or a connection ends, as RFC 9113 numbers it.

/// The codes that are sent, by their numbers on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Http2Code {
    NoError = 0,
    ProtocolError = 1,
    FlowControlError = 3,
    StreamClosed = 5,
    FrameSizeError = 6,
    RefusedStream = 7,
    CompressionError = 9,
    EnhanceYourCalm = 11,
}

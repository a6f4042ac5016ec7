//! The field `traceparent` of W3C Trace Context: which trace a request belongs to.

/// Who traces a request: a trace, the span that has sent the request, and whether it is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceParent {
    /// The trace; never zero.
    pub(crate) trace: u128,
    /// The span that has sent the request; never zero.
    pub(crate) span: u64,
    /// Whether the caller records the trace.
    pub(crate) is_sampled: bool,
}

impl TraceParent {
    /// The name of the field.
    pub(crate) const FIELD: &'static str = "traceparent";

    /// Reads `00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01`. Later versions may have more at the end.
    pub(crate) fn parse(value: &[u8]) -> Option<Self> {
        let (head, rest) = value.split_at_checked(55)?;
        let [b'-', ..] = head.get(2..)? else { return None };
        let version = hex(&head[..2])?;
        let is_known = version == 0 && rest.is_empty();
        let is_later = (1..0xff).contains(&version) && (rest.is_empty() || rest[0] == b'-');
        if !(is_known || is_later) || head[35] != b'-' || head[52] != b'-' {
            return None;
        }
        let (trace, span, flags) = (hex(&head[3..35])?, hex(&head[36..52])?, hex(&head[53..])?);
        let span = u64::try_from(span).ok()?;
        (trace != 0 && span != 0).then_some(TraceParent { trace, span, is_sampled: flags & 1 == 1 })
    }
}

/// Reads digits, small letters only.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0_u128, |number, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_field_names_trace_span_and_flag() {
        let parent = TraceParent::parse(FIELD.as_bytes()).unwrap();
        assert_eq!(parent.trace, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        assert_eq!((parent.span, parent.is_sampled), (0xb7ad_6b71_6920_3331, true));
        let with_flags =
            |flags: &str| TraceParent::parse(format!("{}{flags}", &FIELD[..53]).as_bytes()).unwrap();
        assert!(!with_flags("00").is_sampled && with_flags("03").is_sampled && !with_flags("02").is_sampled);
        let later = format!("cc{}-more", &FIELD[2..]);
        assert_eq!(TraceParent::parse(later.as_bytes()), Some(parent));
    }

    #[test]
    fn what_is_no_field() {
        let zero_trace = format!("00-{}-b7ad6b7169203331-01", "0".repeat(32));
        let zero_span = format!("00-0af7651916cd43dd8448eb211c80319c-{}-01", "0".repeat(16));
        for wrong in [
            "",
            "00",
            &FIELD[..54],
            &format!("{FIELD}0"),
            &format!("{FIELD}-x"),
            &format!("ff{}", &FIELD[2..]),
            &format!("cc{}x", &FIELD[2..]),
            &FIELD.to_uppercase(),
            &FIELD.replace('-', "_"),
            &FIELD.replace('7', "g"),
            &zero_trace,
            &zero_span,
        ] {
            assert_eq!(TraceParent::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}

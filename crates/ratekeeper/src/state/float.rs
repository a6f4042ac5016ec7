//! Doubles as text, the way Go's `strconv.FormatFloat(x, 'g', -1, 64)` writes them: the shortest digits that read
//! back as the same double; an exponent when it is below −4 or above 5, with a sign and at least two digits.
//!
//! Rust's own notations differ: `{}` never writes an exponent, `{:e}` always does, and `{:?}` changes over elsewhere
//! and adds a `.0`. Even the digits may: of two shortest texts that are equally near, Go takes the one that ends in
//! an even digit, as rounding to a number of digits does in both languages, and Rust the larger one.

use std::fmt::Write;

/// Appends a finite double.
pub(super) fn write(out: &mut String, x: f64) {
    if x.is_sign_negative() {
        out.push('-');
    }
    let (digits, exponent) = shortest(x.abs());
    // Writing to a string cannot fail.
    let _ = match exponent {
        0..6 => {
            let whole = exponent.unsigned_abs() as usize + 1;
            out.extend(digits.chars().chain(std::iter::repeat('0')).take(whole));
            push_fraction(out, digits.get(whole..));
            Ok(())
        }
        -4..0 => write!(out, "0.{:0>zeros$}{digits}", "", zeros = exponent.unsigned_abs() as usize - 1),
        _ => {
            out.push_str(&digits[..1]);
            push_fraction(out, digits.get(1..));
            let sign = if exponent < 0 { '-' } else { '+' };
            write!(out, "e{sign}{:02}", exponent.unsigned_abs())
        }
    };
}

fn push_fraction(out: &mut String, digits: Option<&str>) {
    if let Some(digits) = digits.filter(|digits| !digits.is_empty()) {
        out.push('.');
        out.push_str(digits);
    }
}

/// Returns the fewest digits that read back as `x`, the nearest to it of those, and the exponent of the first of them.
fn shortest(x: f64) -> (String, i32) {
    let shortest = format!("{x:e}");
    let decimals = shortest.find('e').unwrap_or(0).saturating_sub(2);
    let rounded = format!("{x:.decimals$e}");
    // Just below a power of two, doubles lie closer, and the nearest text of this length may miss.
    let text = if rounded.parse() == Ok(x) { rounded } else { shortest };
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (digits.replace('.', ""), exponent.parse().unwrap_or(0))
}

/// Reads a finite double in decimal notation: an optional sign, digits with at most one point among them, and an
/// optional exponent. Neither the words for what is no number, nor hexadecimal, nor underscores; and what is too
/// large for a double is no double.
pub(super) fn parse(text: &str) -> Option<f64> {
    let decimal = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    // Of these characters alone, the standard parser makes just the grammar above.
    let x: f64 = if text.bytes().all(decimal) { text.parse().ok()? } else { return None };
    x.is_finite().then_some(x)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(x: f64) -> String {
        let mut out = String::new();
        write(&mut out, x);
        out
    }

    #[test]
    #[expect(clippy::excessive_precision, reason = "the exact value, which shows the tie")]
    fn written_as_go_writes_them() {
        for (x, expected) in [
            (5.0, "5"),
            (8.5, "8.5"),
            (0.0, "0"),
            (-0.0, "-0"),
            (-2.5, "-2.5"),
            (100_000.0, "100000"),
            (999_999.0, "999999"),
            (999_999.5, "999999.5"),
            (999_999.999_999_999_9, "999999.9999999999"),
            (1e6, "1e+06"),
            (-1e6, "-1e+06"),
            (1_999_999.0, "1.999999e+06"),
            (1_234_567.25, "1.23456725e+06"),
            (0.1, "0.1"),
            (0.001, "0.001"),
            (0.0001, "0.0001"),
            (0.000_123_45, "0.00012345"),
            (0.000_099_999, "9.9999e-05"),
            (1e-5, "1e-05"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1.0 / 3.0, "0.3333333333333333"),
            (100.0 / 3.0, "33.333333333333336"),
            (9_007_199_254_740_992.0, "9.007199254740992e+15"),
            (1e21, "1e+21"),
            (1e100, "1e+100"),
            (1.5e-100, "1.5e-100"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (28.999_999_999_999_996, "28.999999999999996"),
            // Two texts of the same length are equally near: even digits win.
            (767_315_300_582_392.25, "7.673153005823922e+14"),
            (754_282_925_734_480.75, "7.542829257344808e+14"),
            (524_288.000_488_281_25, "524288.0004882812"),
            // The nearest text of 16 digits is another double: the next one counts.
            (5.684341886080802e-14, "5.684341886080802e-14"),
        ] {
            assert_eq!(text(x), expected);
        }
    }

    #[test]
    fn what_is_read_and_what_is_not() {
        for (text, x) in [
            ("5", 5.0),
            ("5.0", 5.0),
            ("5.", 5.0),
            (".5", 0.5),
            ("+5", 5.0),
            ("-5", -5.0),
            ("005.50", 5.5),
            ("1e3", 1_000.0),
            ("1E+03", 1_000.0),
            ("1e-400", 0.0),
        ] {
            assert_eq!(parse(text), Some(x), "{text}");
        }
        for text in [
            "", ".", "+", "-", "e", "e5", ".e5", "1e", "1e+", "--1", "1-", "1.2.3", "1e2e3", "1e2.5", " 1",
            "1 ", "1,5", "1_000", "0x10", "0x1p-2", "nan", "NaN", "inf", "-inf", "+Inf", "infinity", "1e999",
            "-1e999", "１",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    /// The text by another road: the fewest correctly rounded digits that read back, set by the rule in words.
    fn derived(x: f64) -> String {
        let candidates = (0..17).map(|decimals| format!("{x:.decimals$e}"));
        let shortest = candidates.into_iter().find(|text| text.parse::<f64>().unwrap() == x).unwrap();
        let (digits, exponent) = shortest.split_once('e').unwrap();
        let exponent: i32 = exponent.parse().unwrap();
        let (sign, digits) = match digits.strip_prefix('-') {
            Some(digits) => ("-", digits),
            None => ("", digits),
        };
        let digits = digits.replace('.', "");
        let point = |digits: &str, at: usize| match digits.split_at(at) {
            (whole, "") => whole.to_string(),
            (whole, rest) => format!("{whole}.{rest}"),
        };
        let text = match exponent {
            0..=5 => {
                let at = exponent.unsigned_abs() as usize + 1;
                point(&format!("{digits:0<at$}"), at)
            }
            -4..=-1 => format!("0.{}{digits}", "0".repeat(exponent.unsigned_abs() as usize - 1)),
            6.. => format!("{}e+{exponent:02}", point(&digits, 1)),
            _ => format!("{}e-{:02}", point(&digits, 1), -exponent),
        };
        format!("{sign}{text}")
    }

    /// Doubles of every magnitude, and many near the ones at which the notation changes over.
    fn doubles() -> impl Strategy<Value = f64> {
        prop_oneof![
            any::<u64>().prop_map(f64::from_bits).prop_filter("finite", |x| x.is_finite()),
            -1e7..1e7,
            -1e-3..1e-3,
            (-100_000_000i32..100_000_000).prop_map(|x| f64::from(x) / 100.0),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_500, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_double_reads_back(x in doubles()) {
            prop_assert_eq!(parse(&text(x)).map(f64::to_bits), Some(x.to_bits()));
        }

        #[test]
        fn every_double_is_written_as_the_rule_says(x in doubles()) {
            // Just below a power of two, doubles lie closer: there the nearest short decimal may miss although
            // another of the same length does not, and the road above is not the shortest.
            prop_assume!(x.to_bits() << 12 != 0);
            prop_assert_eq!(text(x), derived(x));
        }
    }

    #[test]
    fn powers_of_two_read_back() {
        for exponent in -1074..1024 {
            let x = 2f64.powi(exponent);
            assert_eq!(parse(&text(x)), Some(x), "2^{exponent}");
        }
    }
}

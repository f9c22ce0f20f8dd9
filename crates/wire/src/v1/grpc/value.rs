//! Free JSON and timestamps: converts between our text and the types of protobuf.
//!
//! Reading turns a tree into compact text. A tree can hold a number that is not finite, which JSON cannot; it is
//! refused. Writing turns text into a tree, and never fails: an integer that a double cannot hold becomes the nearest
//! double, because a stored task must stay readable over each binding, whichever it came in by.

use crate::path::{MemberError, Path};
use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};
use sabir_proto::{JSON_DEPTH_MAX, Json, JsonFault, Object, Timestamp};

/// From this value on a double cannot tell neighbouring integers apart.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Reads a member that may be any JSON.
pub(crate) fn read_value(value: &Value, path: &Path<'_>) -> Result<Json, MemberError> {
    let mut text = Vec::with_capacity(64);
    print(value, 0, &mut text).map_err(|problem| path.error(problem))?;
    parse(&text, path)
}

/// Reads a member that must be an object.
pub(crate) fn read_struct(object: &Struct, path: &Path<'_>) -> Result<Object, MemberError> {
    let mut text = Vec::with_capacity(64);
    print_members(object, 1, &mut text).map_err(|problem| path.error(problem))?;
    Object::new(parse(&text, path)?).map_err(|e| path.error(e))
}

/// Reads an object that need not be there.
pub(crate) fn read_optional_struct(object: Option<Struct>, path: &Path<'_>) -> Result<Option<Object>, MemberError> {
    object.map(|object| read_struct(&object, path)).transpose()
}

fn parse(text: &[u8], path: &Path<'_>) -> Result<Json, MemberError> {
    let text = std::str::from_utf8(text).map_err(|e| path.error(e))?;
    Json::parse(text).map_err(|e| path.error(e))
}

/// Writes a tree as compact text. `depth` counts the brackets that are open.
fn print(value: &Value, depth: usize, out: &mut Vec<u8>) -> Result<(), JsonFault> {
    match &value.kind {
        // A value without a kind breaks the specification, but Python's protobuf reads it as null.
        None | Some(Kind::NullValue(_)) => out.extend_from_slice(b"null"),
        Some(Kind::BoolValue(true)) => out.extend_from_slice(b"true"),
        Some(Kind::BoolValue(false)) => out.extend_from_slice(b"false"),
        Some(Kind::NumberValue(number)) => print_number(*number, out)?,
        Some(Kind::StringValue(text)) => print_string(text, out),
        Some(Kind::StructValue(object)) => print_members(object, depth + 1, out)?,
        Some(Kind::ListValue(list)) => {
            bound(depth + 1)?;
            out.push(b'[');
            for (i, item) in list.values.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                print(item, depth + 1, out)?;
            }
            out.push(b']');
        }
    }
    Ok(())
}

fn print_members(object: &Struct, depth: usize, out: &mut Vec<u8>) -> Result<(), JsonFault> {
    bound(depth)?;
    out.push(b'{');
    for (i, (name, value)) in object.fields.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        print_string(name, out);
        out.push(b':');
        print(value, depth, out)?;
    }
    out.push(b'}');
    Ok(())
}

/// Checks the depth, which also bounds the recursion here.
const fn bound(depth: usize) -> Result<(), JsonFault> {
    if depth > JSON_DEPTH_MAX { Err(JsonFault::TooDeep) } else { Ok(()) }
}

fn print_string(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("a string serialises into memory");
}

fn print_number(number: f64, out: &mut Vec<u8>) -> Result<(), JsonFault> {
    if !number.is_finite() {
        return Err(JsonFault::Syntax(format!("{number} is not a number that JSON can hold")));
    }
    // A sender of 3 means 3, although protobuf carries a double. `Display` of a double writes neither fraction nor
    // exponent here, and keeps the sign of a negative zero.
    if number.fract() == 0.0 && number.abs() <= EXACT_MAX {
        out.extend_from_slice(number.to_string().as_bytes());
    } else {
        serde_json::to_writer(out, &number).expect("a finite number serialises into memory");
    }
    Ok(())
}

/// Writes any JSON. A number becomes the nearest double.
pub(crate) fn write_value(json: &Json) -> Value {
    // `Json` has checked its text: it parses, and is nested no deeper than the recursion below allows.
    json.read().map_or_else(|_| Kind::NullValue(0).into(), tree)
}

fn tree(json: serde_json::Value) -> Value {
    let kind = match json {
        serde_json::Value::Null => Kind::NullValue(0),
        serde_json::Value::Bool(yes) => Kind::BoolValue(yes),
        serde_json::Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        serde_json::Value::String(text) => Kind::StringValue(text),
        serde_json::Value::Array(items) => Kind::ListValue(ListValue { values: items.into_iter().map(tree).collect() }),
        serde_json::Value::Object(members) => {
            Kind::StructValue(Struct { fields: members.into_iter().map(|(name, value)| (name, tree(value))).collect() })
        }
    };
    kind.into()
}

/// Writes an object as a `Struct`.
pub(crate) fn write_struct(object: &Object) -> Struct {
    match write_value(object.as_json()).kind {
        Some(Kind::StructValue(object)) => object,
        _ => Struct::default(),
    }
}

/// Reads a timestamp, to the millisecond; ours begin in 1970 and end with the year 9999, as in JSON.
pub(crate) fn read_time(time: prost_types::Timestamp, path: &Path<'_>) -> Result<Timestamp, MemberError> {
    let within = (0..1_000_000_000).contains(&time.nanos);
    let millis = time.seconds.checked_mul(1000).map(|ms| ms.saturating_add(i64::from(time.nanos / 1_000_000)));
    millis
        .filter(|ms| within && Timestamp::from_millis(*ms).millis() == *ms)
        .map(Timestamp::from_millis)
        .ok_or_else(|| path.error("not a timestamp between the years 1970 and 9999"))
}

/// Writes a timestamp in seconds and nanoseconds.
pub(crate) fn write_time(time: Timestamp) -> prost_types::Timestamp {
    let (seconds, millis) = (time.millis().div_euclid(1000), time.millis().rem_euclid(1000));
    prost_types::Timestamp { seconds, nanos: i32::try_from(millis * 1_000_000).unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sabir_proto::Fault;
    use std::collections::BTreeMap;

    const PATH: Path<'_> = Path::Root;

    fn number(n: f64) -> Value {
        Kind::NumberValue(n).into()
    }

    #[track_caller]
    fn check_text(value: &Value, text: &str) {
        assert_eq!(read_value(value, &PATH).unwrap().as_str(), text);
    }

    #[test]
    fn whole_numbers_have_no_fraction_while_doubles_can_tell_them_apart() {
        for (n, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (-17.0, "-17"),
            (EXACT_MAX, "9007199254740992"),
            (-EXACT_MAX, "-9007199254740992"),
            (EXACT_MAX + 2.0, "9007199254740994.0"),
            (0.1, "0.1"),
            (1e300, "1e+300"),
            (5e-324, "5e-324"),
        ] {
            check_text(&number(n), text);
            let back = write_value(&Json::parse(text).unwrap());
            let Some(Kind::NumberValue(again)) = back.kind else { panic!("{text} is a number") };
            assert_eq!(again.to_bits(), n.to_bits(), "{text}");
        }
    }

    #[test]
    fn numbers_that_are_not_finite_are_refused_and_named() {
        for n in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let list = Kind::ListValue(ListValue { values: vec![number(1.0), number(n)] }).into();
            let Fault::InvalidParams(wrong) = read_value(&list, &PATH.member("data")).unwrap_err().into() else {
                panic!("invalid parameters")
            };
            assert_eq!(wrong[0].field, "data");
        }
    }

    #[test]
    fn an_integer_beyond_every_double_becomes_the_nearest() {
        let text = "12345678901234567890";
        assert_eq!(write_value(&Json::parse(text).unwrap()), number(12345678901234567890.0));
    }

    #[test]
    fn text_of_any_form_is_read() {
        let json = r#"{"b":[],"a":{"":[true,false,null,1.50e1,{}]},"esc\"\u0041\\":"\ud83d\ude00é\n,]}\""}"#;
        let sorted = r#"{"a":{"":[true,false,null,15,{}]},"b":[],"esc\"A\\":"😀é\n,]}\""}"#;
        check_text(&write_value(&Json::parse(json).unwrap()), sorted);
    }

    #[test]
    fn depth_is_bounded_and_so_is_the_recursion() {
        let nest = |levels: usize| {
            (0..levels).fold(Value { kind: None }, |inner, i| {
                if i % 2 == 0 {
                    Kind::ListValue(ListValue { values: vec![inner] }).into()
                } else {
                    Kind::StructValue(Struct { fields: BTreeMap::from([("a".to_owned(), inner)]) }).into()
                }
            })
        };
        let deepest = read_value(&nest(JSON_DEPTH_MAX), &PATH).unwrap();
        assert_eq!(read_value(&write_value(&deepest), &PATH).unwrap(), deepest);
        assert!(read_value(&nest(JSON_DEPTH_MAX + 1), &PATH).is_err());

        // The object around it counts as a level.
        let object = |levels| Struct { fields: BTreeMap::from([("a".to_owned(), nest(levels))]) };
        assert!(read_struct(&object(JSON_DEPTH_MAX - 1), &PATH).is_ok());
        assert!(read_struct(&object(JSON_DEPTH_MAX), &PATH).is_err());
    }

    #[test]
    fn a_value_without_a_kind_is_null() {
        check_text(&Value { kind: None }, "null");
    }

    #[test]
    fn instants_are_kept_to_the_millisecond_within_our_years() {
        let time = |seconds, nanos| read_time(prost_types::Timestamp { seconds, nanos }, &PATH).ok();
        assert_eq!(time(1_780_308_000, 123_999_999), Timestamp::parse("2026-06-01T10:00:00.123Z"));
        assert_eq!(time(253_402_300_799, 999_999_999), Timestamp::parse("9999-12-31T23:59:59.999Z"));
        for (seconds, nanos) in
            [(-1, 0), (253_402_300_800, 0), (i64::MAX, 0), (i64::MIN, 0), (0, -1), (0, 1_000_000_000)]
        {
            assert_eq!(time(seconds, nanos), None, "{seconds} {nanos}");
        }
        let last = Timestamp::from_millis(i64::MAX);
        assert_eq!(read_time(write_time(last), &PATH).unwrap(), last);
    }
}

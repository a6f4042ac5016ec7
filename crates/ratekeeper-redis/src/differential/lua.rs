//! A server's scripting engine without the server: Lua 5.1, a table of keys, and a clock that is told.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use mlua::{Function, Lua, MultiValue, Table, Value as LuaValue};
use ratekeeper::Timestamp;
use redis::Value;

use crate::error::{RedisError, RedisErrorKind};
use crate::script::{Script, ScriptCall};
use crate::scripted::RunScript;

/// What is under a key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StoredValue {
    Text(Vec<u8>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
}

/// The keys, their times to live in milliseconds, and the time.
#[derive(Debug, Default)]
pub(crate) struct Keyspace {
    pub(crate) keys: HashMap<Vec<u8>, StoredValue>,
    /// Sorted sets: scores by member.
    pub(crate) sorted: HashMap<Vec<u8>, BTreeMap<Vec<u8>, f64>>,
    /// Those that were just set, for a test to take out.
    pub(crate) expiry: HashMap<Vec<u8>, u64>,
    /// When each key expires, in milliseconds since the epoch. None of them does: a test's clock jumps.
    pub(crate) ends: HashMap<Vec<u8>, i64>,
    pub(crate) now: Timestamp,
}

/// A server that runs scripts on a table in this process.
pub(crate) struct LuaServer {
    lua: Lua,
    compiled: Mutex<HashMap<String, Function>>,
    pub(crate) keyspace: Arc<Mutex<Keyspace>>,
}

impl LuaServer {
    pub(crate) fn new() -> Self {
        let lua = Lua::new();
        let keyspace = Arc::new(Mutex::new(Keyspace::default()));
        let redis = lua.create_table().unwrap();
        let shared = Arc::clone(&keyspace);
        let call = move |lua: &Lua, arguments: MultiValue| shared.lock().unwrap().call(lua, arguments);
        redis.set("call", lua.create_function(call).unwrap()).unwrap();
        let shared = Arc::clone(&keyspace);
        // A failure is a table with its message.
        let pcall = move |lua: &Lua, arguments: MultiValue| match shared.lock().unwrap().call(lua, arguments)
        {
            Ok(value) => Ok(value),
            Err(error) => {
                let failure = lua.create_table()?;
                failure.set("err", error.to_string())?;
                Ok(LuaValue::Table(failure))
            }
        };
        redis.set("pcall", lua.create_function(pcall).unwrap()).unwrap();
        lua.globals().set("redis", redis).unwrap();
        let packing = lua.create_table().unwrap();
        packing.set("pack", lua.create_function(pack).unwrap()).unwrap();
        packing.set("unpack", lua.create_function(unpack).unwrap()).unwrap();
        lua.globals().set("struct", packing).unwrap();
        // As on a server: no script makes or misses a global.
        let strict = "setmetatable(_G, {
            __index = function(_, name) error('no global ' .. name) end,
            __newindex = function(table, name, value)
                if name ~= 'KEYS' and name ~= 'ARGV' then error('a global ' .. name) end
                rawset(table, name, value)
            end })";
        lua.load(strict).exec().unwrap();
        LuaServer { lua, compiled: Mutex::default(), keyspace }
    }

    /// Returns how many scripts it has run.
    pub(crate) fn scripts(&self) -> usize {
        self.compiled.lock().unwrap().len()
    }

    /// Runs a script, as `EVALSHA` does.
    pub(crate) fn eval(&self, script: &Script, call: &ScriptCall) -> Value {
        let mut compiled = self.compiled.lock().unwrap();
        let function = compiled
            .entry(script.sha1().to_owned())
            .or_insert_with(|| self.lua.load(script.source()).into_function().unwrap());
        let strings = |parts: &mut dyn Iterator<Item = &[u8]>| {
            self.lua.create_sequence_from(parts.map(|part| self.lua.create_string(part).unwrap())).unwrap()
        };
        let mut parts = call.parts();
        let keys = strings(&mut parts.by_ref().take(call.keys()));
        self.lua.globals().set("KEYS", keys).unwrap();
        self.lua.globals().set("ARGV", strings(&mut parts)).unwrap();
        to_reply(&function.call::<LuaValue>(()).unwrap())
    }
}

impl RunScript for Arc<LuaServer> {
    async fn run(&self, script: &Script, call: &ScriptCall) -> Result<Value, RedisError> {
        match self.eval(script, call) {
            Value::Okay => Err(RedisError::new(RedisErrorKind::Other, "no answer")),
            value => Ok(value),
        }
    }
}

/// A value as the protocol carries it: numbers are cut off, false is nothing, a list ends at its first hole.
fn to_reply(value: &LuaValue) -> Value {
    match value {
        LuaValue::Integer(number) => Value::Int(*number),
        #[expect(clippy::cast_possible_truncation, reason = "as a server does")]
        LuaValue::Number(number) => Value::Int(*number as i64),
        LuaValue::String(text) => Value::BulkString(text.as_bytes().to_vec()),
        LuaValue::Table(list) => {
            Value::Array((1..=list.raw_len()).map(|at| to_reply(&list.raw_get(at).unwrap())).collect())
        }
        _ => Value::Nil,
    }
}

impl Keyspace {
    fn call(&mut self, lua: &Lua, arguments: MultiValue) -> mlua::Result<LuaValue> {
        let mut arguments: Vec<Vec<u8>> = arguments
            .iter()
            .map(|argument| match argument {
                LuaValue::String(text) => text.as_bytes().to_vec(),
                LuaValue::Integer(number) => number.to_string().into_bytes(),
                LuaValue::Number(number) => format!("{number}").into_bytes(),
                other => panic!("a command of {other:?}"),
            })
            .collect();
        let name = String::from_utf8(arguments.remove(0)).unwrap();
        let bytes = |bytes: &[u8]| lua.create_string(bytes).map(LuaValue::String);
        let list = |items: Vec<Vec<u8>>| -> mlua::Result<Table> {
            lua.create_sequence_from(items.iter().map(|item| lua.create_string(item).unwrap()))
        };
        let wrong =
            || mlua::Error::runtime("WRONGTYPE Operation against a key holding the wrong kind of value");
        match (name.as_str(), arguments.as_slice()) {
            ("TIME", []) => {
                let micros = self.now.as_nanos() / 1_000;
                let time = [micros / 1_000_000, micros % 1_000_000];
                list(time.iter().map(|part| part.to_string().into_bytes()).collect()).map(LuaValue::Table)
            }
            ("GET", [key]) => match self.keys.get(key) {
                None => Ok(LuaValue::Boolean(false)),
                Some(StoredValue::Text(text)) => bytes(text),
                Some(_) => Err(wrong()),
            },
            ("SET", [key, text, keep]) if keep == b"KEEPTTL" => {
                self.keys.insert(key.clone(), StoredValue::Text(text.clone()));
                Ok(LuaValue::Boolean(true))
            }
            ("SET", [key, text, px, millis]) if px == b"PX" => {
                self.keys.insert(key.clone(), StoredValue::Text(text.clone()));
                self.expire(key, millis);
                Ok(LuaValue::Boolean(true))
            }
            ("PTTL", [key]) => {
                let left = self.ends.get(key).map(|end| end.saturating_sub(self.millis()));
                let none = if self.keys.contains_key(key) { -1 } else { -2 };
                #[expect(clippy::cast_precision_loss, reason = "as a server does")]
                Ok(LuaValue::Number(left.unwrap_or(none) as f64))
            }
            ("DEL", [key]) => {
                self.expiry.remove(key);
                self.ends.remove(key);
                Ok(LuaValue::Integer(self.keys.remove(key).is_some().into()))
            }
            ("HGETALL", [key]) => match self.keys.get(key) {
                None => list(Vec::new()).map(LuaValue::Table),
                Some(StoredValue::Hash(hash)) => {
                    let fields = hash.iter().flat_map(|(name, content)| [name.clone(), content.clone()]);
                    list(fields.collect()).map(LuaValue::Table)
                }
                Some(_) => Err(wrong()),
            },
            ("HGET", [key, field]) => match self.keys.get(key) {
                None => Ok(LuaValue::Boolean(false)),
                Some(StoredValue::Hash(hash)) => {
                    hash.get(field).map_or(Ok(LuaValue::Boolean(false)), |content| bytes(content))
                }
                Some(_) => Err(wrong()),
            },
            ("ZADD", [key, score, member]) => {
                self.sorted.entry(key.clone()).or_default().insert(member.clone(), score_of(score));
                Ok(LuaValue::Integer(1))
            }
            ("ZREM", [key, members @ ..]) => {
                let set = self.sorted.entry(key.clone()).or_default();
                let removed = members.iter().filter(|member| set.remove(*member).is_some()).count();
                Ok(LuaValue::Integer(i64::try_from(removed).unwrap()))
            }
            ("ZCOUNT", [key, least, most]) => {
                let (range, set) = (score_of(least)..=score_of(most), self.sorted.get(key));
                let count = set.map_or(0, |set| set.values().filter(|score| range.contains(score)).count());
                Ok(LuaValue::Integer(i64::try_from(count).unwrap()))
            }
            ("ZRANGEBYSCORE", [key, least, most, options @ ..]) => {
                let (least, most) = (score_of(least), score_of(most));
                let mut found: Vec<(f64, &Vec<u8>)> = match self.sorted.get(key) {
                    Some(set) => set.iter().map(|(member, score)| (*score, member)).collect(),
                    None => Vec::new(),
                };
                found.retain(|(score, _)| (least..=most).contains(score));
                found.sort_by(|one, other| one.0.total_cmp(&other.0).then_with(|| one.1.cmp(other.1)));
                let with_scores = options[0] == b"WITHSCORES";
                let limit = &options[usize::from(with_scores)..];
                assert_eq!((limit[0].as_slice(), limit.len()), (b"LIMIT".as_slice(), 3));
                let [skip, most] = [&limit[1], &limit[2]]
                    .map(|number| str::from_utf8(number).unwrap().parse::<usize>().unwrap());
                let found = found.into_iter().skip(skip).take(most);
                let items = found.flat_map(|(score, member)| {
                    [Some(member.clone()), with_scores.then(|| format!("{score}").into_bytes())]
                });
                list(items.flatten().collect()).map(LuaValue::Table)
            }
            ("HMGET", [key, fields @ ..]) => {
                let empty = BTreeMap::new();
                let hash = match self.keys.get(key) {
                    None => &empty,
                    Some(StoredValue::Hash(hash)) => hash,
                    Some(_) => return Err(wrong()),
                };
                let found = lua.create_table()?;
                for (at, field) in fields.iter().enumerate() {
                    let content =
                        hash.get(field).map_or(Ok(LuaValue::Boolean(false)), |content| bytes(content))?;
                    found.raw_set(at + 1, content)?;
                }
                Ok(LuaValue::Table(found))
            }
            ("HKEYS", [key]) => match self.keys.get(key) {
                Some(StoredValue::Hash(hash)) => list(hash.keys().cloned().collect()).map(LuaValue::Table),
                _ => list(Vec::new()).map(LuaValue::Table),
            },
            ("HLEN", [key]) => match self.keys.get(key) {
                Some(StoredValue::Hash(hash)) => Ok(LuaValue::Integer(i64::try_from(hash.len()).unwrap())),
                _ => Ok(LuaValue::Integer(0)),
            },
            ("HDEL", [key, fields @ ..]) => {
                let Some(StoredValue::Hash(hash)) = self.keys.get_mut(key) else {
                    return Ok(LuaValue::Integer(0));
                };
                let removed = fields.iter().filter(|field| hash.remove(*field).is_some()).count();
                if hash.is_empty() {
                    self.keys.remove(key);
                    self.ends.remove(key);
                }
                Ok(LuaValue::Integer(i64::try_from(removed).unwrap()))
            }
            ("HSET", [key, fields @ ..]) => {
                let hash = self.keys.entry(key.clone()).or_insert_with(|| StoredValue::Hash(BTreeMap::new()));
                let StoredValue::Hash(hash) = hash else { return Err(wrong()) };
                for [name, content] in fields.as_chunks::<2>().0 {
                    hash.insert(name.clone(), content.clone());
                }
                Ok(LuaValue::Integer(0))
            }
            ("PEXPIRE", [key, millis]) => {
                self.expire(key, millis);
                Ok(LuaValue::Integer(1))
            }
            other => panic!("no such command: {other:?}"),
        }
    }

    fn millis(&self) -> i64 {
        self.now.as_nanos() / 1_000_000
    }

    fn expire(&mut self, key: &[u8], millis: &[u8]) {
        let millis: u64 = str::from_utf8(millis).unwrap().parse().unwrap();
        assert!(millis >= 1, "a server refuses no time to live");
        self.expiry.insert(key.to_vec(), millis);
        let end = i64::try_from(millis).unwrap_or(i64::MAX).saturating_add(self.millis());
        self.ends.insert(key.to_vec(), end);
    }
}

/// Returns a score as a command has it.
fn score_of(text: &[u8]) -> f64 {
    match text {
        b"+inf" => f64::INFINITY,
        b"-inf" => f64::NEG_INFINITY,
        number => str::from_utf8(number).unwrap().parse().unwrap(),
    }
}

/// The bytes of each item of a format of the servers' `struct`, as far as the scripts use it, and whether the least comes
/// first. `struct_is_the_servers` compares.
fn items(format: &str) -> (bool, Vec<&str>) {
    let (is_little, mut rest) = (format.starts_with('<'), &format[1..]);
    let mut items = Vec::new();
    while !rest.is_empty() {
        let (item, after) = rest.split_at(if rest.starts_with('d') { 1 } else { 2 });
        assert!(["d", "I4", "i8"].contains(&item), "no such format: {format}");
        items.push(item);
        rest = after;
    }
    (is_little, items)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as the library does")]
fn pack(lua: &Lua, (format, numbers): (String, mlua::Variadic<f64>)) -> mlua::Result<mlua::LuaString> {
    let (is_little, items) = items(&format);
    assert_eq!(items.len(), numbers.len(), "{format}");
    let mut packed = Vec::new();
    for (item, number) in items.iter().zip(numbers.iter()) {
        let mut bytes = match *item {
            "d" => number.to_be_bytes().to_vec(),
            "I4" => {
                assert!((0.0..4_294_967_296.0).contains(number) && number.fract() == 0.0);
                (*number as u32).to_be_bytes().to_vec()
            }
            _ => {
                assert!(number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0);
                (*number as i64).to_be_bytes().to_vec()
            }
        };
        if is_little {
            bytes.reverse();
        }
        packed.extend(bytes);
    }
    lua.create_string(packed)
}

#[expect(clippy::cast_precision_loss, reason = "as the library does")]
fn unpack(
    _: &Lua,
    (format, bytes, at): (String, mlua::LuaString, Option<usize>),
) -> mlua::Result<MultiValue> {
    let bytes = bytes.as_bytes();
    let (is_little, items) = items(&format);
    let mut rest = &bytes[at.unwrap_or(1) - 1..];
    let numbers = items.iter().map(|item| {
        let (taken, after) = rest.split_at(if *item == "I4" { 4 } else { 8 });
        rest = after;
        let mut bytes = [0; 8];
        let place = 8 - taken.len();
        bytes[place..].copy_from_slice(taken);
        if is_little {
            bytes[place..].reverse();
        }
        LuaValue::Number(match *item {
            "d" => f64::from_be_bytes(bytes),
            "I4" => u64::from_be_bytes(bytes) as f64,
            _ => i64::from_be_bytes(bytes) as f64,
        })
    });
    Ok(MultiValue::from_vec(numbers.collect()))
}

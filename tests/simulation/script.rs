//! Scripts, run by Lua as a server runs them.

use std::cell::RefCell;
use std::collections::BTreeMap;

use mlua::{Function, Lua, Value, Variadic};

use super::frame::Reply;
use super::server::{Call, Server};

thread_local! {
    static INTERPRETER: Interpreter = Interpreter::default();
}

/// Scripts keep nothing between two runs, so that all servers share one.
#[derive(Default)]
struct Interpreter {
    lua: Lua,
    compiled: RefCell<BTreeMap<String, Function>>,
}

/// The name of a script.
pub(crate) fn hash(source: &str) -> String {
    redis::Script::new(source).get_hash().to_owned()
}

/// Whether it can be compiled.
pub(crate) fn check(source: &str) -> Result<(), Reply> {
    let broken = |error: mlua::Error| Reply::error(format!("ERR Error compiling script: {error}"));
    INTERPRETER.with(|interpreter| interpreter.compile(source).map(drop).map_err(broken))
}

/// Runs a script for a client of the server.
pub(crate) fn run(
    server: &mut Server,
    call: Call,
    source: &str,
    keys: &[Vec<u8>],
    args: &[Vec<u8>],
) -> Reply {
    let ran = INTERPRETER.with(|interpreter| interpreter.run(server, call, source, keys, args));
    ran.unwrap_or_else(|error| Reply::error(first_line(&error)))
}

impl Interpreter {
    fn compile(&self, source: &str) -> mlua::Result<Function> {
        let hash = hash(source);
        if let Some(function) = self.compiled.borrow().get(&hash) {
            return Ok(function.clone());
        }
        let function = self
            .lua
            .load(source)
            .set_name("@user_script")
            .into_function()?;
        self.compiled.borrow_mut().insert(hash, function.clone());
        Ok(function)
    }

    fn run(
        &self,
        server: &mut Server,
        call: Call,
        source: &str,
        keys: &[Vec<u8>],
        args: &[Vec<u8>],
    ) -> mlua::Result<Reply> {
        let function = self.compile(source)?;
        let server = RefCell::new(server);
        self.lua.scope(|scope| {
            let redis = self.lua.create_table()?;
            let function_call = scope.create_function(|lua, words: Variadic<Value>| {
                let words = words.iter().map(|word| bytes(lua, word));
                let words = words.collect::<mlua::Result<Vec<_>>>()?;
                let reply = server.borrow_mut().call(call, &words);
                into_lua(lua, reply)
            })?;
            redis.set("call", function_call)?;
            let globals = self.lua.globals();
            globals.set("redis", redis)?;
            globals.set("KEYS", self.strings(keys)?)?;
            globals.set("ARGV", self.strings(args)?)?;
            Ok(from_lua(function.call(())?))
        })
    }

    fn strings(&self, words: &[Vec<u8>]) -> mlua::Result<Vec<mlua::LuaString>> {
        let words = words.iter();
        words.map(|word| self.lua.create_string(word)).collect()
    }
}

fn bytes(lua: &Lua, word: &Value) -> mlua::Result<Vec<u8>> {
    let text = lua.coerce_string(word.clone())?;
    let text = text.ok_or_else(|| mlua::Error::external("ERR a command takes text and numbers"))?;
    Ok(text.as_bytes().to_vec())
}

fn into_lua(lua: &Lua, reply: Reply) -> mlua::Result<Value> {
    Ok(match reply {
        Reply::Nil => Value::Boolean(false),
        Reply::Int(number) => Value::Number(number as f64),
        Reply::Bulk(bytes) => Value::String(lua.create_string(bytes)?),
        Reply::Text(text) => Value::String(lua.create_string(text)?),
        Reply::Error(text) => return Err(mlua::Error::external(text)),
        Reply::Okay => status(lua, "OK")?,
        Reply::Simple(text) => status(lua, text)?,
        Reply::Map(_) | Reply::Array(_) => {
            return Err(mlua::Error::external(
                "ERR not simulated: tables in scripts",
            ));
        }
    })
}

fn status(lua: &Lua, text: &str) -> mlua::Result<Value> {
    let table = lua.create_table()?;
    table.set("ok", text)?;
    Ok(Value::Table(table))
}

fn from_lua(value: Value) -> Reply {
    match value {
        Value::Integer(number) => Reply::Int(number),
        Value::Number(number) => Reply::Int(number as i64),
        Value::String(text) => Reply::Bulk(text.as_bytes().to_vec()),
        Value::Boolean(true) => Reply::Int(1),
        Value::Table(table) if table.contains_key("ok").unwrap_or(false) => Reply::Okay,
        _ => Reply::Nil,
    }
}

/// An error in one line, its code first.
fn first_line(error: &mlua::Error) -> String {
    let text = match error {
        mlua::Error::CallbackError { cause, .. } => cause.to_string(),
        other => format!("ERR {other}"),
    };
    text.lines().next().unwrap_or_default().to_owned()
}

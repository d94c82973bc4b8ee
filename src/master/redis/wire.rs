use std::sync::OnceLock;

use ::redis::aio::MultiplexedConnection;
use ::redis::{Cmd, RedisError, RedisResult, Script, ServerErrorKind, Value, cmd};

use crate::master::{Action, Answer, Command, EXTEND, Fault, RELEASE, Reply};

/// A command as it goes over the wire.
pub(crate) struct Wire(Cmd);

impl Wire {
    pub(crate) fn of(command: &Command) -> Self {
        Self(match command.action {
            Action::Take(ttl) => set_if_absent(command, ttl.as_millis()),
            Action::Extend(_) | Action::Release => by_hash(command),
        })
    }
}

/// Sends the command, and reads its answer. A script that the server has lost
/// since it was loaded is sent in full: neither script takes anything, so that
/// sending it later is harmless (S7).
pub(super) async fn ask(connection: &mut MultiplexedConnection, command: &Command) -> Reply {
    let mut answer = connection.send_packed_command(&command.wire().0).await;
    if is_no_script(&answer) {
        answer = connection.send_packed_command(&in_full(command)).await;
    }
    read(answer)
}

/// Taking is a plain command: a script would have to be sent again when the
/// server doesn't know it, and the second sending could overtake the release
/// (S7).
fn set_if_absent(command: &Command, millis: u64) -> Cmd {
    let mut set = Cmd::with_capacity(6, 96 + command.key.len());
    set.arg("SET")
        .arg(&*command.key)
        .arg(command.token.as_str())
        .arg("NX")
        .arg("PX")
        .arg(millis);
    set
}

fn by_hash(command: &Command) -> Cmd {
    let mut evalsha = Cmd::with_capacity(6, 128 + command.key.len());
    evalsha
        .arg("EVALSHA")
        .arg(script(command.action).get_hash());
    add_arguments(&mut evalsha, command);
    evalsha
}

fn in_full(command: &Command) -> Cmd {
    let mut eval = cmd("EVAL");
    eval.arg(source(command.action));
    add_arguments(&mut eval, command);
    eval
}

fn add_arguments(script: &mut Cmd, command: &Command) {
    script.arg(1).arg(&*command.key).arg(command.token.as_str());
    if let Action::Extend(ttl) = command.action {
        script.arg(ttl.as_millis());
    }
}

fn source(action: Action) -> &'static str {
    match action {
        Action::Extend(_) => EXTEND,
        Action::Take(_) | Action::Release => RELEASE,
    }
}

fn script(action: Action) -> &'static Script {
    static SCRIPTS: OnceLock<[Script; 2]> = OnceLock::new();
    let [release, extend] = SCRIPTS.get_or_init(|| [Script::new(RELEASE), Script::new(EXTEND)]);
    match action {
        Action::Extend(_) => extend,
        Action::Take(_) | Action::Release => release,
    }
}

fn is_no_script(answer: &RedisResult<Value>) -> bool {
    match answer {
        Ok(Value::ServerError(error)) => error.kind() == Some(ServerErrorKind::NoScript),
        Ok(_) => false,
        Err(error) => error.code() == Some("NOSCRIPT"),
    }
}

/// What the answer means.
fn read(answer: RedisResult<Value>) -> Reply {
    match answer.and_then(Value::extract_error) {
        Ok(Value::Okay | Value::Int(1)) => Ok(Answer::Yes),
        Ok(Value::Nil | Value::Int(0)) => Ok(Answer::No),
        Ok(other) => Err(Fault::Rejected {
            cause: format!("an answer that was not expected: {other:?}").into(),
        }),
        Err(error) => fault(&error),
    }
}

fn fault(error: &RedisError) -> Reply {
    let cause = describe(error);
    if cause.contains("WRONGTYPE") {
        // The key is not a lock at all, so its value is not the token.
        return Ok(Answer::No);
    }
    if error.code().is_some() {
        return Err(Fault::Rejected {
            cause: cause.into(),
        });
    }
    Err(Fault::Broken {
        cause: cause.into(),
    })
}

/// The error in one line.
pub(super) fn describe(error: &RedisError) -> String {
    error.to_string()
}

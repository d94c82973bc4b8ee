use ::redis::{Cmd, RedisError, RedisResult, ServerErrorKind, Value, cmd};
use futures::FutureExt;
use tokio::task::unconstrained;

use super::connection::Connection;
use super::script;
use crate::core::Ttl;
use crate::master::{Action, Answer, Command, Fault, Reply};

/// The least count that is too high: above it, numbers of Lua and of JSON are not
/// exact. The script gives none.
const TOO_HIGH: i64 = 1 << 53;

/// What the script calls a counter that would be too high.
const COUNTER: &str = "COUNTER";

/// What servers say of a counter's field that they can't add to.
const NO_COUNTS: [&str; 2] = [
    "hash value is not an integer",
    "increment or decrement would overflow",
];

/// A command as it goes over the wire.
pub(crate) struct Wire(Cmd);

impl Wire {
    pub(crate) fn of(command: &Command) -> Self {
        Self(match command.action {
            Action::Take(ttl) | Action::GiveBack(ttl) => set_if_absent(command, ttl.as_millis()),
            Action::TakeFenced(_) | Action::Raise { .. } | Action::Extend(_) => in_full(command),
            Action::Release => by_hash(command),
            Action::Look | Action::Check => get(command),
        })
    }
}

/// Sends the command, and reads its answer. A release whose script the server
/// has lost since it was loaded is sent in full: sending a release later is
/// harmless (S7). Nothing else is sent twice.
pub(super) async fn ask(connection: &mut Connection, command: &Command) -> Reply {
    let mut answer = connection.send_packed_command(&command.wire().0).await;
    if is_no_script(&answer) {
        answer = connection.send_packed_command(&in_full(command)).await;
    }
    read(command, answer)
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

fn get(command: &Command) -> Cmd {
    let mut get = cmd("GET");
    get.arg(&*command.key);
    get
}

/// The release's script by its hash.
fn by_hash(command: &Command) -> Cmd {
    let mut evalsha = Cmd::with_capacity(6, 128 + command.key.len());
    evalsha.arg("EVALSHA").arg(script::release_hash());
    add_arguments(&mut evalsha, command);
    evalsha
}

/// The whole script. All but releases are always sent so: were it sent again when
/// the server doesn't know the script, a fenced taking could come after its own
/// release (S7), and an extension after the next one of the same lock, to undo it
/// where that one is longer.
fn in_full(command: &Command) -> Cmd {
    let source = script::source(command.action);
    let mut eval = Cmd::with_capacity(9, 256 + source.len() + 2 * command.key.len());
    eval.arg("EVAL").arg(source);
    add_arguments(&mut eval, command);
    eval
}

fn add_arguments(script: &mut Cmd, command: &Command) {
    let token = command.token.as_str();
    match command.action {
        Action::TakeFenced(ask) => {
            add_counter(script, command, ask.ttl.as_millis(), ask.life);
        }
        Action::Raise { count, life } => add_counter(script, command, count, life),
        Action::Extend(ttl) => {
            script.arg(1).arg(&*command.key).arg(token);
            script.arg(ttl.as_millis());
        }
        _ => {
            script.arg(1).arg(&*command.key).arg(token);
        }
    }
}

/// Without a generation the script has an argument too few, and fails.
fn add_counter(script: &mut Cmd, command: &Command, number: u64, life: Ttl) {
    script.arg(2).arg(&*command.key).arg(command.counter());
    script.arg(command.token.as_str()).arg(number);
    script.arg(life.as_millis());
    script.arg(command.generation.as_deref());
}

/// Puts the command on the connection's queue without waiting for an answer: a
/// stopped server executes it when it goes on, even if this process has ended
/// by then.
pub(super) fn send_blindly(connection: &Connection, command: &Command) {
    let mut cmd = command.wire().0.clone();
    cmd.set_no_response(true);
    let mut connection = connection.clone();
    // Polled once, it is queued.
    let _ = unconstrained(connection.send_packed_command(&cmd)).now_or_never();
}

fn is_no_script(answer: &RedisResult<Value>) -> bool {
    match answer {
        Ok(Value::ServerError(error)) => error.kind() == Some(ServerErrorKind::NoScript),
        Ok(_) => false,
        Err(error) => error.code() == Some("NOSCRIPT"),
    }
}

/// What the answer means. One that the command can't have is taken for the sign
/// of a connection whose answers are out of step: it is not used any more.
fn read(command: &Command, answer: RedisResult<Value>) -> Reply {
    match (command.action, answer.and_then(Value::extract_error)) {
        (Action::Take(_) | Action::GiveBack(_), Ok(Value::Okay)) => Ok(Answer::Yes),
        (Action::Take(_) | Action::GiveBack(_), Ok(Value::Nil)) => Ok(Answer::No),
        (Action::TakeFenced(_), Ok(Value::Int(count))) => counted(count),
        (Action::TakeFenced(_), Ok(Value::Nil)) => Ok(Answer::No),
        (Action::Raise { .. }, Ok(Value::Int(1))) => Ok(Answer::Yes),
        (Action::Raise { .. }, Ok(Value::Int(0))) => Ok(Answer::No),
        (Action::Extend(_) | Action::Release, Ok(Value::Int(1))) => Ok(Answer::Yes),
        (Action::Extend(_) | Action::Release, Ok(Value::Int(0))) => Ok(Answer::No),
        (Action::Look, Ok(Value::Nil)) => Ok(Answer::Yes),
        (Action::Look, Ok(Value::BulkString(_))) => Ok(Answer::No),
        (Action::Check, Ok(Value::BulkString(value)))
            if value == command.token.as_str().as_bytes() =>
        {
            Ok(Answer::Yes)
        }
        (Action::Check, Ok(Value::BulkString(_) | Value::Nil)) => Ok(Answer::No),
        (_, Ok(other)) => Err(Fault::Broken {
            cause: format!("an answer to another command: {other:?}").into(),
        }),
        (action, Err(error)) => fault(action, &error),
    }
}

fn counted(count: i64) -> Reply {
    match u64::try_from(count) {
        Ok(exact) if count < TOO_HIGH => Ok(Answer::Counted(exact)),
        _ => Err(Fault::Broken {
            cause: format!("a count that the script doesn't give: {count}").into(),
        }),
    }
}

fn fault(action: Action, error: &RedisError) -> Reply {
    let cause = describe(error);
    let is_wrong_type = cause.contains("WRONGTYPE");
    let is_no_count = NO_COUNTS.iter().any(|words| cause.contains(words));
    if action.counts() && (is_wrong_type || is_no_count || error.code() == Some(COUNTER)) {
        return Err(Fault::Counter {
            cause: cause.into(),
        });
    }
    if is_wrong_type {
        // The key is not a lock at all, so its value is not the token.
        return Ok(Answer::No);
    }
    if is_answer(error) {
        return Err(Fault::Rejected {
            cause: cause.into(),
        });
    }
    Err(Fault::Broken {
        cause: cause.into(),
    })
}

/// Whether it is the server that says so: then the connection stands.
pub(super) fn is_answer(error: &RedisError) -> bool {
    error.code().is_some()
}

/// The error in one line; a server's in its own words. A server that doesn't know
/// a command repeats its arguments, of which one may be a password.
pub(super) fn describe(error: &RedisError) -> String {
    let mut text = match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => error.to_string(),
    };
    if let Some(arguments) = text.find(", with args") {
        text.truncate(arguments);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s16_a_count_that_is_not_exact_is_none() {
        assert_eq!(counted(TOO_HIGH - 1), Ok(Answer::Counted((1 << 53) - 1)));
        for count in [TOO_HIGH, i64::MAX, -1] {
            assert!(
                matches!(counted(count), Err(Fault::Broken { .. })),
                "{count}"
            );
        }
    }
}

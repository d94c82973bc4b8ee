use std::sync::Arc;

use ::redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, ProtocolVersion, PushInfo, PushKind,
    RedisResult, ServerErrorKind, Value, cmd,
};
use tokio::sync::mpsc;

use super::admission::{Register, Standing};
use super::connection::{Connection, Route};
use super::{Timeouts, script, wire};
use crate::core::fold;
use crate::master::Action;

/// How many commands may wait to be written: more than there ever are, since a
/// silent master is not asked. (No memory is set aside for them.) In the crate's
/// default queue of 50, a command that found it full could be overtaken by a
/// later one (S7).
const QUEUE: usize = 1 << 20;

/// One connection to one master.
#[derive(Clone)]
pub(super) struct Session {
    pub(super) connection: Connection,
    /// Sessions with one master are numbered, from 1.
    pub(super) number: u64,
    pub(super) origin: Origin,
    /// Whether it has a vote.
    pub(super) standing: Standing,
    /// The server's number, if it tells of changes of the keys that were looked
    /// at.
    pub(super) tells: Option<u64>,
}

/// A connection that is ready for commands.
pub(super) struct Opened {
    pub(super) session: Session,
    pub(super) pushes: Pushes,
    /// Whether the lost connection has ended at the server too, so that nothing
    /// of it is applied any more.
    pub(super) lost_is_over: bool,
}

/// What the server calls the connection, as far as it says.
#[derive(Clone, Default)]
pub(super) struct Origin {
    /// The process of the server: changes at every restart.
    run_id: Option<Arc<str>>,
    /// The connection's number in that process.
    client_id: Option<i64>,
}

impl Origin {
    /// A number for the server, from its own name for itself, which all its
    /// clients see; where it doesn't say, from the address, which is the same
    /// for most.
    fn server(&self, route: &Route) -> u64 {
        match &self.run_id {
            Some(run_id) => fold(run_id.as_bytes()),
            None => fold(route.address().as_bytes()),
        }
    }
}

/// Pushes of the server, and the news that the connection has ended. A server
/// without RESP3 sends neither: there the loss shows at the next command.
pub(super) type Pushes = mpsc::UnboundedReceiver<PushInfo>;

/// Connects, and makes the connection ready for commands: the server is asked
/// what it is, the lost connection before is killed, so that nothing of it is
/// applied any more (S7), and the release's script is loaded.
pub(super) async fn open(
    route: &Route,
    timeouts: Timeouts,
    register: &Register,
    number: u64,
    lost: Option<&Origin>,
) -> RedisResult<Opened> {
    let (connection, pushes) = connect(route, timeouts).await?;
    let (client_id, standing, tells, ()) = tokio::try_join!(
        client_id(connection.clone()),
        register.admit(connection.clone()),
        tracking(connection.clone()),
        load(connection.clone(), script::source(Action::Release)),
    )?;
    let origin = Origin {
        run_id: standing.run_id.clone(),
        client_id,
    };
    let lost_is_over = match lost {
        Some(lost) => kill(connection.clone(), lost, &origin).await?,
        None => true,
    };
    if !tells {
        register.say_it_does_not_tell();
    }
    let session = Session {
        connection,
        number,
        tells: tells.then(|| origin.server(route)),
        origin,
        standing,
    };
    Ok(Opened {
        session,
        pushes,
        lost_is_over,
    })
}

async fn connect(route: &Route, timeouts: Timeouts) -> RedisResult<(Connection, Pushes)> {
    match connect_with(route, ProtocolVersion::RESP3, timeouts).await {
        Err(error) if speaks_no_resp3(&error) => {
            tracing::debug!(
                cause = wire::describe(&error),
                "no RESP3: going on with RESP2"
            );
            connect_with(route, ProtocolVersion::RESP2, timeouts).await
        }
        result => result,
    }
}

async fn connect_with(
    route: &Route,
    protocol: ProtocolVersion,
    timeouts: Timeouts,
) -> RedisResult<(Connection, Pushes)> {
    let (sender, pushes) = mpsc::unbounded_channel();
    let mut config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(timeouts.connect))
        .set_response_timeout(None)
        .set_pipeline_buffer_size(QUEUE);
    if protocol == ProtocolVersion::RESP3 {
        config = config.set_push_sender(sender);
    }
    let info = route.client().get_connection_info();
    // The name of the library would take one more permission, and is unknown to
    // servers before 7.2.
    let settings = info.redis_settings().clone().set_protocol(protocol);
    let settings = settings.set_skip_set_lib_name();
    let tcp = info.tcp_settings().clone().set_nodelay(true);
    let info = info.clone().set_redis_settings(settings);
    let client = Client::open(info.set_tcp_settings(tcp))?;
    Ok((route.connect(&client, &config).await?, pushes))
}

/// Old servers don't know `HELLO`, proxies may refuse it, and an ACL may forbid
/// it. A server that takes no more clients refuses anything.
fn speaks_no_resp3(error: &::redis::RedisError) -> bool {
    let full = error
        .detail()
        .is_some_and(|detail| detail.starts_with("max number of clients"));
    let refused = matches!(
        error.kind(),
        ErrorKind::RESP3NotSupported
            | ErrorKind::Server(ServerErrorKind::NoPerm | ServerErrorKind::ResponseError)
    ) || error.code() == Some("NOPROTO");
    refused && !full
}

/// What a push is about.
pub(super) enum News {
    Ended,
    Changed,
    Other,
}

pub(super) fn news(push: &PushInfo) -> News {
    match push.kind {
        PushKind::Disconnection => News::Ended,
        PushKind::Invalidate => News::Changed,
        _ => News::Other,
    }
}

/// The answer, if the server gives one: not to know or not to allow a command is
/// its right. Only a connection that broke is an error.
pub(super) fn allowed(answer: RedisResult<Value>) -> RedisResult<Option<Value>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if wire::is_answer(&error) => {
            tracing::debug!(cause = wire::describe(&error), "goes on without");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

async fn client_id(connection: Connection) -> RedisResult<Option<i64>> {
    match allowed(ask(connection, cmd("CLIENT").arg("ID")).await)? {
        Some(Value::Int(id)) => Ok(Some(id)),
        _ => Ok(None),
    }
}

/// Asks to be told when keys that this connection has read are changed by others
/// or expire. Servers before 6 can't, RESP2 has no room for it, and an ACL or a
/// proxy may forbid it: then those who wait look again from time to time.
async fn tracking(connection: Connection) -> RedisResult<bool> {
    let mut tracking = cmd("CLIENT");
    tracking.arg("TRACKING").arg("ON").arg("NOLOOP");
    Ok(allowed(ask(connection, &tracking).await)?.is_some())
}

/// The keys that a push says have changed: `None` if all may have.
pub(super) fn changed_keys(push: &PushInfo) -> Option<impl Iterator<Item = &[u8]>> {
    let Some(Value::Array(keys)) = push.data.first() else {
        return None;
    };
    Some(keys.iter().filter_map(|key| match key {
        Value::BulkString(key) => Some(&**key),
        _ => None,
    }))
}

/// A script that can't be loaded is sent whole when it is needed.
async fn load(connection: Connection, script: &str) -> RedisResult<()> {
    let mut command = cmd("SCRIPT");
    allowed(ask(connection, command.arg("LOAD").arg(script)).await)?;
    Ok(())
}

/// Ends the lost connection at the server; says whether nothing of it can be
/// applied any more. The numbers of connections begin anew when the server is
/// restarted, so a number is only used in the process that gave it.
async fn kill(connection: Connection, lost: &Origin, origin: &Origin) -> RedisResult<bool> {
    let (Some(before), Some(now)) = (&lost.run_id, &origin.run_id) else {
        return Ok(false);
    };
    if before != now {
        return Ok(true);
    }
    let Some(id) = lost.client_id else {
        return Ok(false);
    };
    let answer = ask(connection, cmd("CLIENT").arg("KILL").arg("ID").arg(id)).await;
    Ok(allowed(answer)?.is_some())
}

/// Asks for something on the connection; in order, like every command.
pub(super) async fn ask(mut connection: Connection, cmd: &Cmd) -> RedisResult<Value> {
    connection.send_packed_command(cmd).await?.extract_error()
}

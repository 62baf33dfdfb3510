//! A server for pages on this machine.
//!
//! [`Server::bind`] listens on 127.0.0.1 alone, and [`Server::run`] answers until it is told to stop. A [`Site`]
//! computes the answers; `guard` decides which requests are answered.

mod answer;
mod guard;

use std::convert::Infallible;
use std::fs::File;
use std::io::Read as _;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

use self::guard::Guard;
use crate::{Error, Result};

pub(crate) use self::answer::bytes;
pub use self::answer::{Answer, Refusal, html, json};

/// Largest size of a request's body in bytes: the file of a photograph.
pub(crate) const BODY_BYTES: usize = 16 << 20;
/// Largest size of a request's head in bytes.
const HEAD_BYTES: usize = 16 << 10;
/// Time limit for a request's head, and for the pause before it on an open connection.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Time limit for a request's body.
const BODY_TIME: Duration = Duration::from_secs(15);
/// Largest number of connections at a time; others wait until one ends.
const CONNECTIONS: usize = 64;
/// Interval at which the server checks whether to stop.
const STOP_POLL: Duration = Duration::from_millis(50);

/// A page, and the answers to its requests.
pub trait Site: Send + Sync + 'static {
    /// Answers a request; none for an unknown path. Only one request is answered at a time.
    fn answer(&self, call: &Call) -> Option<Result<Answer, Refusal>>;
}

/// An admitted request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Whether the request is a POST.
    pub is_post: bool,
    /// Path after the token, without the slash; empty for the page itself.
    pub path: String,
    /// Query, without the question mark.
    pub query: String,
    /// Body of a POST.
    pub body: Vec<u8>,
}

/// A server that listens, and answers while it [runs](Self::run).
pub struct Server {
    runtime: Runtime,
    listener: TcpListener,
    shared: Arc<Shared>,
}

/// State that all requests share.
struct Shared {
    guard: Guard,
    site: Box<dyn Site>,
    /// Lock for the computation of an answer, which may use all cores.
    turn: Mutex<()>,
}

impl Server {
    /// Listens on this port of 127.0.0.1, or on a free port for 0. The address has a random token.
    ///
    /// # Errors
    /// [`Error::Listen`].
    pub fn bind(port: u16, site: impl Site) -> Result<Self> {
        let fail = |source| Error::Listen { port, source };
        let mut secret = [0; 16];
        let read = File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut secret));
        read.map_err(fail)?;
        let runtime = Builder::new_current_thread().enable_io().enable_time().max_blocking_threads(4).build();
        let runtime = runtime.map_err(fail)?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, port))).map_err(fail)?;
        let guard = Guard::new(listener.local_addr().map_err(fail)?.port(), secret);
        let shared = Arc::new(Shared { guard, site: Box::new(site), turn: Mutex::default() });
        Ok(Self { runtime, listener, shared })
    }

    /// Returns the page's address with its token.
    pub fn address(&self) -> String {
        self.shared.guard.address()
    }

    /// Answers requests until `is_over` returns `true`.
    pub fn run(self, is_over: &dyn Fn() -> bool) {
        let Self { runtime, listener, shared } = self;
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        runtime.block_on(async {
            while !is_over() {
                let next = async {
                    let place = places.clone().acquire_owned().await;
                    (place, listener.accept().await)
                };
                match tokio::time::timeout(STOP_POLL, next).await {
                    Ok((place, Ok((stream, _)))) => {
                        let shared = shared.clone();
                        tokio::spawn(async move {
                            serve(stream, shared).await;
                            drop(place);
                        });
                    }
                    // An accept fails because of the client, or while no file descriptor is free.
                    Ok((_, Err(_))) => tokio::time::sleep(STOP_POLL).await,
                    Err(_) => {}
                }
            }
        });
        runtime.shutdown_timeout(Duration::from_secs(5));
    }
}

/// Answers the requests of one connection; errors of the connection are ignored.
async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let service = service_fn(|request| {
        let shared = shared.clone();
        async move { Ok::<_, Infallible>(shared.answer(request).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_BYTES);
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

impl Shared {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        self.served(request).await.unwrap_or_else(|refusal| {
            let mut answer = refusal.answer();
            // The rest of the request's body is not read.
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            answer
        })
    }

    async fn served(self: Arc<Self>, request: Request<Incoming>) -> Result<Answer, Refusal> {
        let (head, body) = request.into_parts();
        let admitted = self.guard.admit(&head.method, &head.uri, &head.headers)?;
        let [path, query] = admitted.map(str::to_owned);
        let is_post = head.method == Method::POST;
        let body = if is_post { read(body).await? } else { Vec::new() };
        let shared = self.clone();
        let computed = tokio::task::spawn_blocking(move || {
            let _turn = shared.turn.lock().unwrap_or_else(PoisonError::into_inner);
            shared.site.answer(&Call { is_post, path, query, body })
        });
        let failed =
            |_| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the computation failed; please report it");
        let unknown = || Refusal::new(StatusCode::NOT_FOUND, "there is nothing at this address");
        computed.await.map_err(failed)?.unwrap_or_else(|| Err(unknown()))
    }
}

/// Reads a request's body, at most [`BODY_BYTES`] in [`BODY_TIME`].
async fn read(body: Incoming) -> Result<Vec<u8>, Refusal> {
    let late = |_| Refusal::new(StatusCode::REQUEST_TIMEOUT, "the body took too long");
    let collected = tokio::time::timeout(BODY_TIME, Limited::new(body, BODY_BYTES).collect());
    let collected = collected.await.map_err(late)?.map_err(|error| match error.is::<LengthLimitError>() {
        true => Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the file is larger than {} MiB; take a smaller one", BODY_BYTES >> 20),
        ),
        false => Refusal::bad("the body is incomplete"),
    })?;
    Ok(collected.to_bytes().into())
}

//! A server for pages on this machine.
//!
//! [`Server::bind`] listens on 127.0.0.1 alone and [`Server::run`] answers until it is told to stop. What it shows is a
//! [`Site`]; `guard` says who is answered at all.

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

/// Bytes of a request's body at most: a photograph's file.
pub(crate) const BODY_BYTES: usize = 16 << 20;
/// Bytes of a request's head at most.
const HEAD_BYTES: usize = 16 << 10;
/// Time for a request's head, and for the pause before it on a connection that is kept.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Time for a request's body.
const BODY_TIME: Duration = Duration::from_secs(15);
/// Connections at once; others wait until one ends.
const CONNECTIONS: usize = 64;
/// How often a server looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(50);

/// A page and what it asks for.
pub trait Site: Send + Sync + 'static {
    /// The answer to a request; none where there is nothing of that name. One is computed at a time.
    fn answer(&self, call: &Call) -> Option<Result<Answer, Refusal>>;
}

/// A request that may be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Whether the page posts something.
    pub is_post: bool,
    /// The path behind the token, without its slash; the page itself has none.
    pub path: String,
    /// The text behind the question mark.
    pub query: String,
    /// The body of a post.
    pub body: Vec<u8>,
}

/// A server that listens, and answers while it [runs](Self::run).
pub struct Server {
    runtime: Runtime,
    listener: TcpListener,
    shared: Arc<Shared>,
}

/// What all requests share.
struct Shared {
    guard: Guard,
    site: Box<dyn Site>,
    /// One request computes at a time: what it asks for may use all cores.
    turn: Mutex<()>,
}

impl Server {
    /// Listens at this port of 127.0.0.1, or at a free one for 0. The address has a random token.
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

    /// The page's address with its token.
    pub fn address(&self) -> String {
        self.shared.guard.address()
    }

    /// Answers until `is_over` says so.
    pub fn run(self, is_over: &dyn Fn() -> bool) {
        let Self { runtime, listener, shared } = self;
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        runtime.block_on(async {
            while !is_over() {
                let next = async {
                    let place = places.clone().acquire_owned().await;
                    (place, listener.accept().await)
                };
                match tokio::time::timeout(LOOK, next).await {
                    Ok((place, Ok((stream, _)))) => {
                        let shared = shared.clone();
                        tokio::spawn(async move {
                            serve(stream, shared).await;
                            drop(place);
                        });
                    }
                    // An error of accept is of the client, or of the moment: no descriptor is left.
                    Ok((_, Err(_))) => tokio::time::sleep(LOOK).await,
                    Err(_) => {}
                }
            }
        });
        runtime.shutdown_timeout(Duration::from_secs(5));
    }
}

/// Answers the requests of one connection; its errors are the client's.
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
            // What is left of its body is not read.
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

/// A request's body, no longer than it may be.
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

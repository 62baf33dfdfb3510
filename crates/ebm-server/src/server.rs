//! Listening on 127.0.0.1, and what a request goes through.

use std::convert::Infallible;
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

use crate::answer::{Answer, Refusal};
use crate::connections::{AtWork, Connections};
use crate::guard::Guard;
use crate::limits;
use crate::site::{Call, Site};

/// How often a server looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(50);

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The port is taken, or may not be listened at.
    #[error("cannot listen at 127.0.0.1:{port}; take another port, or 0 for any that is free")]
    Listen {
        /// The port that was asked for.
        port: u16,
        /// What the system says.
        source: io::Error,
    },
    /// The system gives no threads, or no random numbers.
    #[error("cannot start the server")]
    Start(#[source] io::Error),
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
    bodies: Semaphore,
    /// One request computes at a time: what it asks for may use all cores.
    turn: Mutex<()>,
}

impl Server {
    /// Listens at this port of 127.0.0.1, or at a free one for 0; `secret` are random bytes, which become the token in the
    /// address.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn bind(port: u16, site: Box<dyn Site>, secret: [u8; 16]) -> Result<Self, ServerError> {
        let mut runtime = Builder::new_current_thread();
        runtime.enable_io().enable_time().max_blocking_threads(limits::BODIES);
        let runtime = runtime.build().map_err(ServerError::Start)?;
        let fail = |source| ServerError::Listen { port, source };
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, port))).map_err(fail)?;
        let guard = Guard::new(listener.local_addr().map_err(fail)?.port(), secret);
        let bodies = Semaphore::new(limits::BODIES);
        Ok(Self {
            runtime,
            listener,
            shared: Arc::new(Shared { guard, site, bodies, turn: Mutex::default() }),
        })
    }

    /// The page's address with its token.
    pub fn address(&self) -> String {
        self.shared.guard.address()
    }

    /// Answers until `is_over` says so.
    pub fn run(self, is_over: &dyn Fn() -> bool) {
        let Self { runtime, listener, shared } = self;
        runtime.block_on(async {
            let mut connections = Connections::new(limits::CONNECTIONS);
            while !is_over() {
                // An error of accept is of the client, or of the moment: no descriptor is left.
                match tokio::time::timeout(LOOK, listener.accept()).await {
                    Ok(Ok((stream, _))) if connections.make_room() => {
                        let at_work = AtWork::default();
                        let task = tokio::spawn(serve(stream, shared.clone(), at_work.clone()));
                        connections.add(task.abort_handle(), at_work);
                    }
                    Ok(Err(_)) => tokio::time::sleep(LOOK).await,
                    Ok(Ok(_)) | Err(_) => {}
                }
            }
        });
        runtime.shutdown_timeout(Duration::from_secs(5));
    }
}

/// Answers the requests of one connection; its errors are the client's.
async fn serve(stream: TcpStream, shared: Arc<Shared>, at_work: AtWork) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| {
        let (shared, working) = (shared.clone(), at_work.begin());
        async move {
            let answer = shared.answer(request).await;
            drop(working);
            Ok::<_, Infallible>(answer)
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits::HEAD_TIME).max_buf_size(limits::HEAD_BYTES);
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
        let unknown = || Refusal::new(StatusCode::NOT_FOUND, "there is nothing at this address");
        let is_post = head.method == Method::POST;
        if let Some(file) = Some(admitted.path).filter(|_| !is_post).and_then(|name| self.site.file(name)) {
            return Ok(file);
        }
        let (path, query) = (admitted.path.to_owned(), admitted.query.to_owned());
        let gone = |_| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the server is ending");
        let place = self.bodies.acquire().await.map_err(gone)?;
        let body = if is_post { read(body).await?.into() } else { Vec::new() };
        let shared = self.clone();
        let computed = tokio::task::spawn_blocking(move || {
            let _turn = shared.turn.lock().unwrap_or_else(PoisonError::into_inner);
            shared.site.compute(&Call { is_post, path, query, body })
        });
        let answer = computed.await;
        drop(place);
        let failed =
            |_| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the computation failed; please report it");
        answer.map_err(failed)?.unwrap_or_else(|| Err(unknown()))
    }
}

/// A request's body, no longer than it may be.
async fn read(body: Incoming) -> Result<Bytes, Refusal> {
    let late = |_| Refusal::new(StatusCode::REQUEST_TIMEOUT, "the body took too long");
    let collected = tokio::time::timeout(limits::BODY_TIME, Limited::new(body, limits::BODY_BYTES).collect());
    let collected = collected.await.map_err(late)?.map_err(|error| match error.is::<LengthLimitError>() {
        true => {
            let most = limits::BODY_BYTES >> 20;
            Refusal::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("the file is larger than {most} MiB; take a smaller one"),
            )
        }
        false => Refusal::bad("the body is incomplete"),
    })?;
    Ok(collected.to_bytes())
}

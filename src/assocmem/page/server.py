"""The live page: a small server on this machine only. GET only, nothing the reader types runs here."""

from __future__ import annotations

import asyncio
import gzip
import logging
import mimetypes
import socket
import zlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from assocmem.contract.errors import AssocmemError, InputError
from assocmem.kernels.compute import cores, one_blas_thread
from assocmem.page import STATIC
from assocmem.page.data import document, first_paths

if TYPE_CHECKING:
    from starlette.applications import Starlette

HOST = "127.0.0.1"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; connect-src 'self' blob:; "
    "worker-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
KEPT = 512
"""So many answers are kept, those asked for last."""

for _kind, _ending in (("text/javascript", ".js"), ("text/javascript", ".mjs"), ("application/wasm", ".wasm"),
                       ("font/woff2", ".woff2"), ("text/x-python", ".py")):  # fmt: skip
    mimetypes.add_type(_kind, _ending)


class Answer:
    """The document at a path as it is sent: plain and packed, with its tag."""

    def __init__(self, path: str) -> None:
        with one_blas_thread:  # several are computed at once: a thread each is enough
            self.plain = document(path).encode()
        self.path, self.packed = path, gzip.compress(self.plain, 6, mtime=0)
        self.tag = f'"{zlib.crc32(self.plain):08x}"'


class Answers:
    """The answers by path: one is computed once, however often it is asked for, and one that is kept waits for none."""

    def __init__(self) -> None:
        self.kept: OrderedDict[str, Answer] = OrderedDict()
        self._coming: dict[str, asyncio.Future[Answer]] = {}
        self._limit: Any = None

    def keep(self, answer: Answer) -> Answer:
        """Keep an answer, in place of the one that was asked for longest ago."""
        self.kept[answer.path] = answer
        if len(self.kept) > KEPT:
            self.kept.popitem(last=False)
        return answer

    async def at(self, path: str) -> Answer:
        """Return the answer at a path; AssocmemError as `document` raises it."""
        if path in self.kept:
            self.kept.move_to_end(path)
            return self.kept[path]
        if path not in self._coming:
            self._coming[path] = asyncio.ensure_future(self._compute(path))
        return await asyncio.shield(self._coming[path])  # who asked may leave; others wait for it too

    async def _compute(self, path: str) -> Answer:
        from anyio import CapacityLimiter, to_thread

        self._limit = self._limit or CapacityLimiter(cores())
        try:
            return self.keep(await to_thread.run_sync(Answer, path, limiter=self._limit, abandon_on_cancel=True))
        finally:
            del self._coming[path]


def application(answers: Answers | None = None) -> Starlette:
    """Return the ASGI application: `/` and the static files, `/data/<path>.json` for the numbers, or some `answers`."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.gzip import GZipMiddleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles

    answers = answers or Answers()

    async def data(request: Any) -> Response:
        try:
            answer = await answers.at(request.path_params["path"])
        except (AssocmemError, ValueError) as error:
            return JSONResponse({"error": str(error)}, status_code=404)
        headers = {"ETag": answer.tag, "Vary": "Accept-Encoding"}
        if request.headers.get("if-none-match") == answer.tag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            packed = {**headers, "Content-Encoding": "gzip"}
            return Response(answer.packed, media_type="application/json", headers=packed)
        return Response(answer.plain, media_type="application/json", headers=headers)

    return Starlette(
        routes=[
            Route("/data/{path:path}.json", data, methods=["GET"]),
            Mount("/", StaticFiles(directory=STATIC, html=True)),
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=["localhost", HOST, "[::1]"]),
            Middleware(_Headers),
            Middleware(GZipMiddleware, minimum_size=1024),
        ],
    )


class _Headers:
    """Adds the security headers to every answer."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def send_with(message: Any) -> None:
            if message["type"] == "http.response.start":
                extra = [(k.lower().encode(), v.encode()) for k, v in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        await self.app(scope, receive, send_with if scope["type"] == "http" else send)


def listen(port: int) -> socket.socket:
    """Return a socket that listens on this machine's `port` (0: any free one).

    Raises InputError with one sentence where the port is out of range or taken.
    """
    if not 0 <= port <= 65535:
        raise InputError(f"`--port` must lie in 0..65535; got {port}.")
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((HOST, port))
    except OSError as error:
        made.close()
        raise InputError(f"port {port} is not free ({error.strerror}); choose another, or --port 0 for any.") from error
    made.listen(64)
    return made


def _worth_saying(record: logging.LogRecord) -> bool:
    """Tell whether a line of the server's log is more than that a browser was still there when it was stopped."""
    cancelled = bool(record.exc_info and record.exc_info[0] and issubclass(record.exc_info[0], asyncio.CancelledError))
    return not cancelled and "graceful shutdown" not in record.getMessage()


def serve(port: int = 8765, *, browser: bool = True) -> None:
    """Serve the page until Ctrl-C: print its address and open the browser unless told not to."""
    import uvicorn

    found = listen(port)
    address = f"http://localhost:{found.getsockname()[1]}/"
    answers = Answers()
    for path in first_paths():
        answers.keep(Answer(path))
    print(f"assocmem explore: {address}  (Ctrl-C to stop)", flush=True)
    if browser:
        import webbrowser

        webbrowser.open(address)
    config = uvicorn.Config(application(answers), log_level="warning", access_log=False, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    logging.getLogger("uvicorn.error").addFilter(_worth_saying)
    try:
        server.run(sockets=[found])
    except KeyboardInterrupt:
        pass
    finally:
        found.close()
    print("stopped.")

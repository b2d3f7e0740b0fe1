"""What the HTTP servers have in common: who may ask, how much at once, how errors are told, and how to run and stop.

    app = FastAPI()                                  # or any other ASGI application
    explain(app)                                     # errors as problem JSON
    worker, hub = Worker("model"), Hub()             # one model's work in order of urgency; server-sent events
    place = listen("127.0.0.1", 8765)
    serve(Guard(app, Access.of("127.0.0.1")), place, stop=[hub.close, worker.close])

Nothing here knows of photographs.
"""

from dgpnet.serving.access import Access
from dgpnet.serving.events import Hub
from dgpnet.serving.guard import Guard, Limits
from dgpnet.serving.problems import Problem, explain
from dgpnet.serving.running import address, listen, serve, serving
from dgpnet.serving.work import Worker, answered

__all__ = [
    "Access",
    "Guard",
    "Hub",
    "Limits",
    "Problem",
    "Worker",
    "address",
    "answered",
    "explain",
    "listen",
    "serve",
    "serving",
]

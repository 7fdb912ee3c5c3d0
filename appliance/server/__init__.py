"""HTTP: sockets, routes, streams; the only package that knows Sanic."""

"""Tokens of the WLCG profile: signed by openssl, sent by curl, and issuers that change their keys."""

import base64
import http.server
import json
import os
import threading
import time
import uuid

from harness.checks import equal, until
from harness.kist import Kist
from harness.suite import needs
from harness.tools import run

ISSUER, AUDIENCE = "https://issuer.example", "https://kist.example"
SETTINGS = f"""
[[identity.issuers]]
issuer = "{ISSUER}"
audiences = ["{AUDIENCE}"]
prefix = "cms"
[[identity.issuers.keys]]
file = "issuer.pem"
"""


@needs("kist")
def test_tokens_and_an_issuer_that_changes_its_key(place):
    old, new = new_key(place, "old"), new_key(place, "new")
    server = Kist(place.directory / "kist", settings=SETTINGS)
    publish(server, old)
    server.start()
    try:
        server.command("mkdir", "-p", "/cms/in", "/other").exits()
        token = signed(place, old, "storage.create:/cms/in storage.read:/cms/in")
        equal(asks(place, server, token, "PUT", "/cms/in/a", "bytes")[0], 201, "a put where the token may")
        equal(asks(place, server, token, "GET", "/cms/in/a"), (200, "bytes"), "a get")
        equal(asks(place, server, token, "PUT", "/other/a", "bytes")[0], 403, "a put elsewhere")
        equal(asks(place, server, token, "PUT", "/cms/input", "bytes")[0], 403, "a put at a name that begins alike")
        later = signed(place, new, "storage.read:/cms/in")
        equal(asks(place, server, later, "GET", "/cms/in/a")[0], 401, "a key that is not the issuer's yet")
        # What is not good is not taken.
        (server.directory / "issuer.pem").write_text("no key\n")
        server.hang_up()
        until("a word in the log", lambda: "issuers and certificates of clients stay as they were" in server.log_end())
        equal(asks(place, server, token, "GET", "/cms/in/a")[0], 200, "the old key stays")
        publish(server, new)
        server.hang_up()
        until("the new key counts", lambda: asks(place, server, later, "GET", "/cms/in/a")[0] == 200)
        equal(asks(place, server, token, "GET", "/cms/in/a")[0], 401, "a key that is the issuer's no more")
    finally:
        server.stop()


@needs("kist")
def test_keys_are_fetched_from_an_issuer(place):
    keys = {"old": new_key(place, "old"), "new": new_key(place, "new")}
    published = {"keys": [jwk(keys["old"], "old")]}
    with Issuer(published) as issuer:
        settings = SETTINGS.replace(ISSUER, issuer.url).partition("[[identity.issuers.keys]]")[0]
        server = Kist(place.directory / "kist", settings=f'[identity]\nrefresh = "1s"\n{settings}')
        server.start()
        try:
            server.command("mkdir", "-p", "/in").exits()

            def asked(name):
                token = signed(place, keys[name], "storage.read:/", issuer.url, name)
                return asks(place, server, token, "GET", "/none")[0]

            until("the keys are there", lambda: asked("old") == 404)
            equal(asked("new"), 401, "a key that is not published yet")
            published["keys"] = [jwk(keys["new"], "new")]
            until("the new key counts", lambda: asked("new") == 404)
            equal(asked("old"), 401, "a key that is published no more")
            published["keys"] = []
            until("the last key is withdrawn", lambda: asked("new") == 401)
            published["keys"] = [jwk(keys["new"], "new")]
            until("it is there again", lambda: asked("new") == 404)
            # Nonsense, and then nothing at all: the keys stay, also over a start.
            published["keys"] = "nonsense"
            until("the log says it", lambda: "cannot be fetched" in server.log_end())
            equal(asked("new"), 404, "after nonsense")
            issuer.stop()
            server.stop()
            server.start()
            equal(asked("new"), 404, "without the issuer")
        finally:
            server.stop()


class Issuer:
    """A web server with the metadata and the keys of an issuer."""

    def __init__(self, published):
        issuer = self

        class Answers(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                known = {
                    "/.well-known/openid-configuration": {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/jwk"},
                    "/jwk": published,
                }
                body = json.dumps(known.get(self.path)).encode()
                self.send_response(200 if self.path in known else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def stop(self):
        """Answers nobody any more."""
        self._server.shutdown()
        self._server.server_close()

    def __exit__(self, *_):
        self.stop()


def jwk(key, kid):
    """The public part of a key as a JWK."""
    text = run(["openssl", "rsa", "-in", key, "-noout", "-modulus"]).exits().out
    modulus = bytes.fromhex(text.strip().partition("=")[2])
    return {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": kid, "n": encoded(modulus), "e": "AQAB"}


def new_key(place, name):
    """Makes a private key; gives its file."""
    file = place.directory / f"{name}.pem"
    run(["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", file]).exits()
    return file


def publish(server, key):
    """Puts the public part where the server reads it."""
    public = server.directory / "issuer.pem.new"
    run(["openssl", "pkey", "-in", key, "-pubout", "-out", public]).exits()
    os.replace(public, server.directory / "issuer.pem")


def signed(place, key, scope, issuer=ISSUER, kid=None):
    """A token with that scope."""
    now = int(time.time())
    claims = {"iss": issuer, "sub": "carl", "aud": AUDIENCE, "exp": now + 600, "iat": now, "nbf": now}
    claims |= {"wlcg.ver": "1.0", "scope": scope, "jti": uuid.uuid4().hex}
    header = {"alg": "RS256", "typ": "JWT"} | ({"kid": kid} if kid else {})
    body = ".".join(encoded(json.dumps(part).encode()) for part in (header, claims))
    signature = run(["openssl", "dgst", "-sha256", "-sign", key], stdin=body.encode()).exits().raw
    return f"{body}.{encoded(signature)}"


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def asks(place, server, token, method, path, body=""):
    """What curl gets: the status and the body."""
    sends = ["--data-binary", body] if body else []
    url = f"{server.url}/data{path}"
    curl = ["curl", "-sS", "-X", method, "-H", f"Authorization: Bearer {token}", "-w", "\n%{http_code}", *sends, url]
    text, status = run(curl).exits().out.rsplit("\n", 1)
    return int(status), text

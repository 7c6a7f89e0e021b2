"""Credentials that are none, at the WebDAV listener."""

import base64
import json
import time

from harness.checks import equal
from harness.raw import LOCK, TAPE, XML, ask, calm, made, several
from harness.suite import needs


def forged(server, macaroon, token):
    """Credentials that are none, each with what is wrong with it."""
    key = server.key

    def bearer(text):
        return (f"Authorization: Bearer {text}",), ""

    def basic(name, secret):
        return (f"Authorization: Basic {base64.b64encode(f'{name}:{secret}'.encode()).decode()}",), ""

    raw = base64.urlsafe_b64decode(macaroon + "=" * (-len(macaroon) % 4))
    at = raw.index(b"activity:")

    def again(data):
        return bearer(base64.urlsafe_b64encode(data).decode().rstrip("="))

    def flipped(where):
        return again(raw[:where] + bytes([raw[where] ^ 1]) + raw[where + 1 :])

    header, payload, signature = token.split(".")

    def jwt(head_of, body_of, signed=signature):
        packed = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in (head_of, body_of)]
        return bearer(f"{packed[0]}.{packed[1]}.{signed}")

    claims = {
        "iss": "https://issuer.example",
        "sub": "root",
        "exp": int(time.time()) + 999,
        "scope": "storage.modify:/",
        "aud": "any",
        "wlcg.ver": "1.0",
    }
    authz = f"authz={key}"
    return {
        "a key cut short": bearer(key[:-1]),
        "a key with a letter more": bearer(key + "A"),
        "a key in other case": bearer(key.swapcase()),
        "a key with one letter changed": bearer(key[:-1] + ("A" if key[-1] != "A" else "B")),
        "a key twice": bearer(f"{key} {key}"),
        "a key in quotes": bearer(f'"{key}"'),
        "no key": bearer(""),
        "blanks": bearer("   "),
        "a slash": bearer("/"),
        "100 kB": bearer("a" * 50_000),
        "NUL-like escapes": bearer("%00"),
        "letters beyond ASCII": bearer("\udcc3\udcbc"),
        "another scheme": ((f"Authorization: Token {key}",), ""),
        "no scheme": ((f"Authorization: {key}",), ""),
        "Digest": (('Authorization: Digest username="root", nonce="", response=""',), ""),
        "Negotiate": (("Authorization: Negotiate YII=",), ""),
        "AWS": (("Authorization: AWS4-HMAC-SHA256 Credential=x/y, SignedHeaders=host, Signature=0",), ""),
        "two headers": ((f"Authorization: Bearer {key}", f"Authorization: Bearer {key}"), ""),
        "a good header and a bad one": ((f"Authorization: Bearer {key}", "Authorization: Bearer x"), ""),
        "authz twice": ((), f"{authz}&{authz}"),
        "authz twice, the second empty": ((), f"{authz}&authz="),
        "authz and the header": ((f"Authorization: Bearer {key}",), authz),
        "authz empty": ((), "authz="),
        "authz of escapes": ((), "authz=%ff%fe"),
        "authz with half an escape": ((), "authz=%4"),
        "authz of a blank": ((), "authz=Bearer%20"),
        "authz in a fragment": ((), f"x=1#{authz}"),
        "authz in capitals": ((), f"AUTHZ=x&authz={key}x"),
        "Basic with another's name": basic("nobody", key),
        "Basic without a name": basic("", key),
        "Basic with a name in capitals": basic("ROOT", key),
        "Basic without a key": basic("root", ""),
        "Basic without a colon": (("Authorization: Basic " + base64.b64encode(key.encode()).decode(),), ""),
        "Basic that is no base64": (("Authorization: Basic !!!",), ""),
        "Basic of 30 kB": basic("a" * 20_000, "b"),
        "Basic with a macaroon and a wrong name": basic("eve", macaroon),
        "a macaroon cut short": bearer(macaroon[:-8]),
        "a macaroon with more behind it": bearer(macaroon + "AAAA"),
        "a macaroon whose signature is changed": flipped(len(raw) - 3),
        "a macaroon whose identifier is changed": flipped(40),
        "a macaroon for more": again(raw.replace(b"activity:LIST", b"activity:STAG")),
        "a macaroon whose path is another": again(raw.replace(b"path:/credentials", b"path:/credentialz")),
        "a macaroon without its caveats": again(raw[: at - 8] + raw[-40:]),
        "a macaroon from elsewhere": again(raw.replace(b"location kist", b"location kisu")),
        "a macaroon that ends later": again(raw.replace(b"before:2", b"before:3")),
        "a macaroon of NULs": again(b"\0" * 300),
        "a macaroon of lengths": again(b"ffff" * 100),
        "a macaroon in JSON": bearer(base64.urlsafe_b64encode(b'{"v":2,"l":"kist"}').decode().rstrip("=")),
        "a macaroon of version 2 that ends at once": again(b"\x02"),
        "a macaroon of version 2 of lengths": again(b"\x02\x01\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),
        "a macaroon of 100 kB": again(raw[:20] + b"x" * 30_000),
        "a token of nobody's": jwt({"alg": "RS256"}, claims),
        "a token that is not signed": jwt({"alg": "none"}, claims, ""),
        "a token signed with a name": jwt({"alg": "HS256"}, claims),
        "a token whose key is in it": jwt({"alg": "RS256", "jwk": {"kty": "oct", "k": "AA"}}, claims),
        "a token whose key is at an address": jwt({"alg": "RS256", "jku": "http://127.0.0.1:1/"}, claims),
        "a token with a key of a path": jwt({"alg": "RS256", "kid": "../../../../dev/null"}, claims),
        "a token of dots": bearer("..."),
        "a token of one dot": bearer("."),
        "a token of many": bearer("a." * 2_000),
        "a token that is no JSON": bearer("e30.e30.e30"),
        "a token of depth": jwt({"alg": "RS256"}, {"a": [[[[[[[[]]]]]]]]}),
        "a token of numbers": jwt({"alg": 1}, {"iss": 1, "exp": "x"}),
        "a token of an issuer inside": jwt({"alg": "ES256"}, claims | {"iss": "http://169.254.169.254/"}),
    }


@needs("kist")
def test_credentials_that_are_none(place):
    server = made(place, "/credentials")
    kind = "Content-Type: application/macaroon-request"
    told = ask(server, "POST", "/credentials", kind, body='{"caveats":["activity:LIST,READ_METADATA"]}')
    macaroon = json.loads(told[2])["macaroon"]
    equal(ask(server, "PROPFIND", "/credentials", key=macaroon)[0], 207, "the one that is good")
    cases = []
    with calm(server):
        for name, (lines, query) in forged(server, macaroon, "e30.e30.AAAA").items():
            for method, path in (
                ("PROPFIND", "/credentials"),
                ("DELETE", "/credentials/f"),
                ("POST", f"{TAPE}/v1/archiveinfo"),
            ):
                found = ask(server, method, f"{path}?{query}" if query else path, *lines, key=None)[0]
                # A fragment, and bytes beyond ASCII, are refused as what they are; a header that is too long as well.
                cases.append((f"{name} with {method} {path}", found, (400, 401, 431)))
        # A macaroon gives what its caveats say and nothing else.
        for method, path, wanted, *lines in [
            ("GET", "/credentials/f", (401, 403)),
            ("DELETE", "/credentials/f", (401, 403)),
            ("PUT", "/credentials/g", (401, 403)),
            ("PROPFIND", "/", (401, 403, 404)),
            ("PROPFIND", "/xml", (401, 403, 404)),
            ("MOVE", "/credentials/f", (401, 403), "Destination: /credentials/g"),
            ("LOCK", "/credentials/f", (401, 403)),
            ("COPY", "/credentials/f", (401, 403), "Destination: /credentials/g"),
            ("POST", "/credentials", (400, 401, 403), kind),
            ("PROPPATCH", "/credentials/f", (401, 403)),
        ]:
            body = {"PUT": "x", "LOCK": LOCK, "POST": "{}", "PROPPATCH": XML["PROPPATCH"].format("<x/>", "")}.get(method)
            for how in ("header", "address"):
                where = path if how == "header" else f"{path}?authz={macaroon}"
                found = ask(server, method, where, *lines, body=body, key=macaroon if how == "header" else None)[0]
                cases.append((f"the macaroon in the {how} with {method} {path}", found, wanted))
        several(cases)

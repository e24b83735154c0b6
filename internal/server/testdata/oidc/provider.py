"""Runs Canaille, an OpenID provider, for the tests of logins by OpenID Connect.

What it shall know comes as JSON on standard input: the file of its database, its name and the port to listen on, its users with their passwords and groups,
and its clients. It ends when standard input does.
"""

import datetime
import json
import os
import sys
import threading

from canaille import create_app
from canaille.app import models
from canaille.backends import Backend
from joserfc.jwk import RSAKey
from werkzeug.serving import make_server

want = json.loads(sys.stdin.readline())
key = RSAKey.generate_key(2048).as_dict(private=True)
app = create_app(
    config={
        "SECRET_KEY": os.urandom(32).hex(),
        "SERVER_NAME": want["name"],
        "PREFERRED_URL_SCHEME": "http",
        "CANAILLE": {"DATABASE": "sql", "JAVASCRIPT": False, "HTMX": False, "LOGGING": {"version": 1}},
        "CANAILLE_SQL": {"DATABASE_URI": "sqlite:///" + want["database"], "AUTO_MIGRATE": True},
        "CANAILLE_OIDC": {"ACTIVE_JWKS": [key]},
    },
    init_backend=True,
)

with app.app_context():
    save = Backend.instance.save
    users = {}
    for u in want["users"]:
        users[u["name"]] = models.User(user_name=u["name"], formatted_name=u["name"], family_name=u["name"], emails=[u["name"] + "@example.org"], password=u["password"])
        save(users[u["name"]])
    for group in sorted({g for u in want["users"] for g in u.get("groups") or []}):
        save(models.Group(display_name=group, members=[users[u["name"]] for u in want["users"] if group in (u.get("groups") or [])]))
    for c in want["clients"]:
        client = models.Client(
            client_id=c["id"],
            client_secret=c["secret"],
            client_name=c["id"],
            client_uri="https://client.example",
            redirect_uris=c["redirects"],
            grant_types=["authorization_code"],
            response_types=["code"],
            scope=["openid", "profile", "email", "groups"],
            token_endpoint_auth_method="client_secret_basic",
            client_id_issued_at=datetime.datetime.now(datetime.timezone.utc),
        )
        save(client)
        client.audience = [client]
        save(client)

server = make_server("127.0.0.1", want["port"], app, threaded=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_port, flush=True)
sys.stdin.read()

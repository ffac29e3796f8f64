"""The text of a key, `ctp_PREFIX_SECRET`: the public prefix finds the row, which stores a hash of the secret."""

import hmac
import secrets
from dataclasses import dataclass
from hashlib import sha256

SCHEME = "ctp"
PREFIX_BYTES = 6
# A random secret of 256 bits cannot be guessed, so a plain hash is enough: no salt, no stretching.
SECRET_BYTES = 32
MAX_TOKEN_LENGTH = 128


@dataclass(frozen=True)
class Token:
    """A key as its owner holds it; `str(token)` is shown only once, when the key is made."""

    prefix: str
    secret: str

    @classmethod
    def new(cls) -> "Token":
        return cls(secrets.token_hex(PREFIX_BYTES), secrets.token_urlsafe(SECRET_BYTES))

    @classmethod
    def parse(cls, text: str) -> "Token | None":
        """Parses a key; returns None if the text does not have the form of one."""
        scheme, _, rest = text.partition("_")
        prefix, _, secret = rest.partition("_")
        well_formed = scheme == SCHEME and len(prefix) == 2 * PREFIX_BYTES and prefix.isalnum() and bool(secret)
        return cls(prefix, secret) if well_formed and text.isascii() and len(text) <= MAX_TOKEN_LENGTH else None

    def __str__(self) -> str:
        return f"{SCHEME}_{self.prefix}_{self.secret}"

    @property
    def digest(self) -> str:
        return sha256(self.secret.encode()).hexdigest()

    def opens(self, digest: str) -> bool:
        """Tells whether the secret matches the hash, in a time that does not depend on how much of it is right."""
        return hmac.compare_digest(self.digest, digest)

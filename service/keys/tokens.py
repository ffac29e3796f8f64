"""The text of a key: `ctp_PREFIX_SECRET`. The prefix is public and finds the row; only a hash of the secret is kept."""

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
    """A key as its owner holds it; `str(token)` is shown once, when it is made."""

    prefix: str
    secret: str

    @classmethod
    def new(cls) -> "Token":
        return cls(secrets.token_hex(PREFIX_BYTES), secrets.token_urlsafe(SECRET_BYTES))

    @classmethod
    def parse(cls, text: str) -> "Token | None":
        """None where the text cannot be a key."""
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
        """Whether this is the secret that was hashed, in a time that does not tell how much of it was right."""
        return hmac.compare_digest(self.digest, digest)

"""A webhook as a receiver: selects notices, encodes them as JSON, and signs them when sent."""

from __future__ import annotations

from quorate.documents.times import time_text
from quorate.service.receivers.delivery_result import Posted
from quorate.service.receivers.notice_sink import Addressed
from quorate.service.receivers.webhook import Seal, Webhook
from quorate.service.receivers.webhook_post import Poster
from quorate.service.reply import to_json
from quorate.views.notices.notice import KnownFew, Notice, notice_tree


class WebhookReceiver:
    """Posts to one webhook."""

    kind = "webhook"

    def __init__(self, hook: Webhook, seal: Seal, poster: Poster) -> None:
        self._hook = hook
        self._seal = seal
        self._poster = poster
        self.name = hook.name
        self.digest = hook.digest
        self.tenant = hook.tenant

    def addressed(self, notice: Notice, known: KnownFew, ledger_id: str) -> Addressed | None:
        """Return the body of the POST; None if the webhook does not want this kind."""
        del known
        if self._hook.kinds and notice.kind not in self._hook.kinds:
            return None
        data = {"ledger": ledger_id, **notice_tree(notice)}
        tree = {"type": notice.kind.value, "timestamp": time_text(notice.at_ms), "data": data}
        return Addressed(notice.owner, to_json(tree).rstrip(b"\n"))

    def send(self, message: str, body: bytes, now_ms: int) -> Posted:
        """Sign and post ``body``, and return the result."""
        return self._poster.post(self._seal.headers(message, now_ms // 1_000, body), body)

    def abort(self) -> None:
        """Close the connection under way, from another thread, and send nothing more."""
        self._poster.abort()

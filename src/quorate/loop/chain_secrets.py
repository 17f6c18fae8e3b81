"""The secrets of the lottery's chains on this machine, and when to record a secret.

The secret of the first chain is in a file beside the ledger. The ledger itself has the encrypted
(sealed) secrets of later chains. If several machines share the ledger, the ledger also has the
sealed secret of the present chain (docs/adr/0052).
"""

from __future__ import annotations

import logging

from quorate.core.commands import SealLottery
from quorate.core.preemption.chain_renewal import renewal_due
from quorate.core.preemption.lottery import CHAIN_LENGTH
from quorate.loop.preimages import Preimages
from quorate.model.state.records import Lottery
from quorate.ports.errors import KeyFileError
from quorate.ports.lottery_seal_port import LotterySeal

_LOG = logging.getLogger(__name__)


class ChainSecrets:
    """Finds the secrets of the lottery's chains, and encrypts them for the ledger.

    ``secret`` is the secret from the file, and ``seal`` decrypts the secrets in the ledger. Each of
    the two may be None.

    If a secret cannot be decrypted, the failure is logged once for each chain.
    """

    def __init__(self, secret: bytes | None, seal: LotterySeal | None) -> None:
        self._secret = secret
        self._seal = seal
        # The chain requested last, whether the ledger had its secret then, and the result.
        self._sought: tuple[str, bool] | None = None
        self._links: Preimages | None = None
        self._warned = ""

    @property
    def can_seal(self) -> bool:
        """Whether this machine has a key that encrypts secrets of chains."""
        return self._seal is not None

    def links(self, lottery: Lottery) -> Preimages | None:
        """Return the links of the present chain; None if this machine lacks the chain's secret."""
        sought = (lottery.commitment, bool(lottery.sealed))
        if self._sought != sought:
            self._sought = sought
            self._links = self._found(lottery)
        return self._links

    def due(self, lottery: Lottery, *, is_shared: bool) -> SealLottery | None:
        """Return the command that records a chain in the ledger now; None if no chain is due.

        The command records the secret of the present chain if the ledger ``is_shared`` and lacks
        this secret. Otherwise the command records the next chain, if a renewal is due. The result
        is None if there is no chain to record, or if this machine has no key to encrypt the chain's
        secret.
        """
        seal = self._seal
        if seal is None or not lottery.commitment:
            return None
        try:
            if is_shared and not lottery.sealed:
                links = self.links(lottery)
                return None if links is None else _sealed(seal, links, lottery.commitment)
            if renewal_due(lottery):
                links = Preimages(seal.new_secret(), CHAIN_LENGTH)
                return _sealed(seal, links, links.link(0).hex())
        except KeyFileError as error:
            self._warn(
                f"{lottery.commitment} unsealed",
                f"the secret of the lottery's chain cannot be encrypted: {error}",
            )
        return None

    def _found(self, lottery: Lottery) -> Preimages | None:
        what = "the service does not have the lottery's secret"
        if self._secret is not None:
            links = Preimages(self._secret, lottery.length)
            if links.link(0).hex() == lottery.commitment:
                return links
            what = "the secret in the file does not fit the ledger's chain"
        if lottery.sealed and self._seal is not None:
            try:
                links = Preimages(
                    self._seal.open(lottery.sealed, lottery.commitment), lottery.length
                )
            except KeyFileError as error:
                what = str(error)
            else:
                if links.link(0).hex() == lottery.commitment:
                    return links
                what = "the encrypted secret in the ledger does not fit the ledger's chain"
        self._warn(lottery.commitment, f"conflicts that need a draw stay open: {what}")
        return None

    def _warn(self, about: str, text: str) -> None:
        if self._warned != about:
            self._warned = about
            _LOG.warning("%s", text)


def _sealed(seal: LotterySeal, links: Preimages, commitment: str) -> SealLottery:
    return SealLottery(commitment, links.length, seal.seal(links.secret, commitment))

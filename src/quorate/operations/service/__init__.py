"""Operations on access tokens, the clock, the quorum and reports of the service."""

"""Operations on access tokens and on the service's clock."""

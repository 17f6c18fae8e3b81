"""Authentication of callers: access tokens and OIDC. ``service/limits`` has the rate limits."""

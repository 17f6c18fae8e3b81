"""Who calls, and how much one tenant and one user may take: tokens, OIDC, rates, shares."""

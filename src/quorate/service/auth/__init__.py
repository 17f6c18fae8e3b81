"""Who calls: access tokens and OIDC. How much one tenant or user may take: ``service/limits``."""

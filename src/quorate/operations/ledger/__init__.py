"""Operations that plan, explain and watch, and operations on the ledger itself."""

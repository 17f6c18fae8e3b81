"""Operations on notices."""

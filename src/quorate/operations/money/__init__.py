"""Operations on usage, statements and links to accounting systems."""

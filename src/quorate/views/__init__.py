"""Views: render results as text lines for people or as trees for programs. Pure; no I/O here."""

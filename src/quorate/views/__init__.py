"""Views: what people and programs are shown, as lines or as trees. Pure; no module here asks."""

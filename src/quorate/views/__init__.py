"""Answers: what people and programs are told, as lines or as trees. Pure; nothing here asks."""

"""The loop: the engine reads the state, decides, appends events, and acts through ports."""

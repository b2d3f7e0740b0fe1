"""The studio: photographs painted, learned from and exported in the browser, and the API behind its page."""

"""Plan, events, outcome, facts and status in; text, Markdown and JSON out. Rendered last, in one place.

Never does I/O but on the stream it is given, and never lets text from a host reach a terminal unescaped.
"""

"""The command line: a file a command, and what several of them share. Wires the rooms, decides nothing."""

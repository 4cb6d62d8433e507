"""The types that flow through the house, and nothing else. Imports nothing of ours."""

"""Agents as their authors would write them."""

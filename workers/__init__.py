"""The Celery workers and the agents. An agent author takes what a tool and an agent need from here."""

from signoff.workers.authoring import Agent, NotApplied, Refused, current_effect, effect

__all__ = ["Agent", "NotApplied", "Refused", "current_effect", "effect"]

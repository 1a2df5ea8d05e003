"""A server on this machine that speaks OpenAI's and Anthropic's wire formats, faults included.

It refuses what the providers would refuse (``chat_rules``, ``responses_rules``, ``messages_rules``), returns
the given responses (``script``) and stores the requests. ``python -m tests.llm.loopback --port 8555``
serves it to anything else, say the examples of the docs.
"""

from tests.llm.loopback.script import Answer, Broken, Call, Raw, Refusal, Step
from tests.llm.loopback.server import Loopback, Recorded

__all__ = ["Answer", "Broken", "Call", "Loopback", "Raw", "Recorded", "Refusal", "Step"]

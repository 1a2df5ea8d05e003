"""Model calls of a summary that may be written again: each is made once."""

from historyapp.core.strategies.base import Complete, NotSummarised, SummaryPrompt


class RepeatableModelCalls:
    """The model calls of one summary. If it is written again, they return the same completions."""

    def __init__(self, complete: Complete) -> None:
        self._complete = complete
        self._completions: list[tuple[SummaryPrompt, str | NotSummarised]] = []
        self._next = 0
        self.error: Exception | None = None
        """The error of the last model call, if it failed."""

    def repeat_from_start(self) -> None:
        self._next = 0

    def __call__(self, prompt: SummaryPrompt) -> str | NotSummarised | None:
        """The completion, or None if the model call failed."""
        if self._next < len(self._completions) and self._completions[self._next][0] == prompt:
            completion = self._completions[self._next][1]
        else:
            del self._completions[self._next :]
            try:
                completion = self._complete(prompt)
            except NotSummarised as refusal:
                completion = refusal
            except Exception as error:  # noqa: BLE001 it is raised after the process has stopped writing
                self.error = error
                return None
            self._completions.append((prompt, completion))
        self._next += 1
        return completion

"""The methods that both recorders have: one for each API call of :mod:`historyapp.client.hooks`."""

from collections.abc import Callable, Coroutine
from functools import cached_property  # noqa: TID251  the client does not use Django
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from historyapp.client import hooks
from historyapp.client.api_call import ApiCall, Id
from historyapp.client.api_methods import Async, Blocking
from historyapp.client.endpoints.contexts import serve_context
from historyapp.client.hooks import SessionOfClient
from historyapp.client.http_messages import as_method

C = TypeVar("C", covariant=True)
P = ParamSpec("P")
T = TypeVar("T")


class RecorderMethod(Generic[P, T]):
    """A method that sends an API call for the recorder's session. The async recorder returns a coroutine."""

    def __init__(self, describe: Callable[Concatenate[Id, P], ApiCall[T]]) -> None:
        self._describe = describe

    @overload
    def __get__(self, recorder: None, kind: type[Any]) -> Callable[..., Any]: ...
    @overload
    def __get__(self, recorder: SessionOfClient[Blocking], kind: type[Any]) -> Callable[P, T]: ...
    @overload
    def __get__(
        self, recorder: SessionOfClient[Async], kind: type[Any]
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, recorder: Any, kind: type[Any]) -> Any:
        return self._method if recorder is None else MethodType(self._method, recorder)

    @cached_property
    def _method(self) -> Callable[..., Any]:
        """The function behind the method, with the name, docstring and signature of the hook's function."""
        describe = self._describe
        return as_method(
            describe,
            lambda self, /, *args, **kwargs: self.playhead.execute(
                describe(self.session_id, *args, **kwargs)
            ),
            first=1,
        )


class RecorderMethods(SessionOfClient[C]):
    """The methods of :class:`historyapp.client.Recorder` and :class:`historyapp.client.AsyncRecorder`."""

    configure = RecorderMethod(hooks.configure)
    # Before the model
    get_messages = RecorderMethod(hooks.get_messages)
    context = RecorderMethod(serve_context)
    say = RecorderMethod(hooks.say)
    append = RecorderMethod(hooks.append)
    # Around an action
    after_parse = RecorderMethod(hooks.after_parse)
    after_execute = RecorderMethod(hooks.after_execute)
    after_call = RecorderMethod(hooks.after_call)
    # Changing course
    rewind = RecorderMethod(hooks.rewind)
    # Reading
    fmt_list = RecorderMethod(hooks.fmt_list)
    fmt_paragraph = RecorderMethod(hooks.fmt_paragraph)
    compile_progress = RecorderMethod(hooks.compile_progress)

"""Messages -> text, by the tokenizer's chat template. Control tokens in the messages are quoted, those of the template are not."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, get_args

from vlrft.policy.control_tokens import ControlTokens
from vlrft.schema import DataError, Message, Slot
from vlrft.schema.sample import Role

ROLES = get_args(Role)


class ChatTemplate:
    """A tokenizer's chat template. `slot_texts`: images and videos in a plain message, which is rendered without it."""

    def __init__(
        self, tokenizer: Any, control: ControlTokens, slot_texts: Mapping[Slot, str]
    ) -> None:
        self.tokenizer = tokenizer
        self.control = control
        self.slot_texts = slot_texts
        # replaces the policy's words where only the text after them is needed; data cannot guess it
        self.marker = f"said {secrets.token_hex(8)}"

    def begin(self, messages: Sequence[Message]) -> str:
        """The conversation up to the policy's next turn; a plain message unchanged.

        Raises DataError when there are no messages, when others come with a plain one, and for an unknown role.
        """
        _check_roles(messages)
        if not messages:
            raise DataError("a conversation without messages; show the policy at least one")
        if all(message.role != "plain" for message in messages):
            return self._apply((), messages)
        if len(messages) > 1:
            raise DataError(
                "a plain message is rendered without a chat template: it must be the only one"
            )
        parts = self._quote(messages[0].content, ())
        return "".join(self.slot_texts[p] if isinstance(p, Slot) else p for p in parts)

    def follow(self, messages: Sequence[Message]) -> str:
        """The text after an assistant's words when messages follow them. Raises DataError as `begin`, and for a template
        that drops those words."""
        if any(message.role == "plain" for message in messages):
            return self.begin(messages)
        _check_roles(messages)
        before = (
            {"role": "user", "content": "-"},
            {"role": "assistant", "content": self.marker},
        )
        _, marker, added = self._apply(before, messages).rpartition(self.marker)
        if not marker:
            raise DataError(
                "this policy's chat template drops or changes the assistant's words, so a context cannot grow; "
                "let the environment show each turn whole (follows=False)"
            )
        return added

    def _apply(self, before: Sequence[dict[str, Any]], messages: Sequence[Message]) -> str:
        """The template's text. Tags in an assistant's words, such as `</think>`, stay unquoted where the template looks for
        them, as some templates leave out earlier thoughts."""

        render = partial(self._render, before, messages)
        quoted = render(())
        said = "".join(str(part) for m in messages if m.role == "assistant" for part in m.content)
        plain = self.control.unquote(quoted)
        looked_for = {
            tag
            for tag in self.control.readable
            if tag in said and self.control.unquote(render({tag})) != plain
        }
        if looked_for:
            return render(looked_for)
        return quoted

    def _render(
        self,
        before: Sequence[dict[str, Any]],
        messages: Sequence[Message],
        tags: Collection[str],
    ) -> str:
        """The template's text, with the tags unquoted in an assistant's words."""
        dicts = [self._as_dict(m, tags if m.role == "assistant" else ()) for m in messages]
        text: str = self.tokenizer.apply_chat_template(
            [*before, *dicts], tokenize=False, add_generation_prompt=True
        )
        return text

    def _as_dict(self, message: Message, allowed: Collection[str]) -> dict[str, Any]:
        """The form that chat templates take: a string where all is text, else a list of parts."""
        parts = self._quote(message.content, allowed)
        if all(isinstance(part, str) for part in parts):
            return {"role": message.role, "content": "".join(map(str, parts))}
        content = [
            {"type": part.value} if isinstance(part, Slot) else {"type": "text", "text": part}
            for part in parts
        ]
        return {"role": message.role, "content": content}

    def _quote(self, content: Sequence[str | Slot], allowed: Collection[str]) -> list[str | Slot]:
        """The content with its control tokens quoted, `allowed` ones excepted."""
        parts: list[str | Slot] = []
        for is_text, run in groupby(content, key=lambda part: isinstance(part, str)):
            same = list(run)
            parts += self.control.quote([str(part) for part in same], allowed) if is_text else same
        return parts


def _check_roles(messages: Sequence[Message]) -> None:
    for message in messages:
        if message.role not in ROLES:
            raise DataError(
                f"a message has the role {message.role!r}; roles are {', '.join(ROLES)}"
            )

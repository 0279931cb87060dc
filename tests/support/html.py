"""Reading of static HTML as strictly as no browser does: a tag that is not closed is an error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"img", "br", "hr", "wbr"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    def walk(self) -> Iterator[Element]:
        """All elements below, in the order of the document."""
        for child in self.children:
            if isinstance(child, Element):
                yield child
                yield from child.walk()

    def all(self, tag: str) -> list[Element]:
        return [element for element in self.walk() if element.tag == tag]

    def text(self, *, hidden: bool = False) -> str:
        """With spaces between elements; without what styles hide, unless asked for."""
        if not hidden and "display:none" in self.attributes.get("style", ""):
            return ""
        parts = (c if isinstance(c, str) else c.text(hidden=hidden) for c in self.children)
        return " ".join(" ".join(parts).split())


class _Strict(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice: {names}"
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")


def parse(html: str) -> Element:
    """The elements of a well-formed fragment."""
    parser = _Strict()
    parser.feed(html)
    parser.close()
    assert parser.open == [parser.root], f"not closed: {[e.tag for e in parser.open[1:]]}"
    return parser.root

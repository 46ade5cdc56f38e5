"""Bytes from a pipe → whole lines of bounded length (pure)."""


class LineSplitter:
    """Collects bytes into lines; one longer than `cap` is dropped whole and counted."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._parts: list[bytes] = []
        self._size = 0
        self._dropping = False
        self.dropped = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Add a chunk; the lines it completes, without their line ends."""
        *ends, rest = chunk.split(b"\n")
        lines = [line for end in ends if (line := self._complete(end)) is not None]
        self._keep(rest)
        return lines

    def finish(self) -> list[bytes]:
        """The pipe is closed: what stands there without a line end counts as a line."""
        line = self._complete(b"")
        return [line] if line else []

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._cap:
            self._dropping = True
            self._parts.clear()
        elif part:
            self._parts.append(part)

    def _complete(self, end: bytes) -> bytes | None:
        self._keep(end)
        line = None if self._dropping else b"".join(self._parts)
        self.dropped += self._dropping
        self._parts, self._size, self._dropping = [], 0, False
        return line
